#include "transaction/written_state.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "optim/tensor_bytes.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {
namespace {

// The library's own writes to them count in no version.
std::vector<std::uint32_t> versions_of(const TrainState& state) {
  std::vector<std::uint32_t> versions;
  for (const auto* tensors : {&state.buffers(), &state.carried_rows()})
    for (const TrainState::Named& named : *tensors)
      versions.push_back(optim::version_of(named.tensor));
  return versions;
}

}  // namespace

WrittenState::WrittenState(const TrainState& state) : state_(state) { begin_anew(); }

void WrittenState::settle() { versions_ = versions_of(state_); }

void WrittenState::begin_anew() {
  settle();
  written_.assign(versions_.size(), false);
}

void WrittenState::look(std::span<const std::byte> start) {
  const std::vector<std::uint32_t> before = std::exchange(versions_, versions_of(state_));
  for (std::size_t i = 0; i < before.size(); ++i)
    written_[i] = written_[i] || versions_[i] != before[i];
  hashes_.assign(versions_.size(), 0);
  start_ = start;
}

void WrittenState::note(const ShareNotes& notes, Txn txn) {
  if (std::ranges::count(written_, true) == 0) return;
  for (std::size_t i = 0; i < written_.size(); ++i)
    notes.written()[i].store(written_[i] ? hash(i) : 0, std::memory_order_relaxed);
  notes.written_mark().store(txn.value() + 1, std::memory_order_relaxed);
}

std::vector<std::size_t> WrittenState::others(const ShareNotes& notes, Txn txn) {
  std::vector<std::size_t> others;
  if (notes.written_mark().load(std::memory_order_relaxed) != txn.value() + 1) return others;
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const std::uint64_t noted = notes.written()[i].load(std::memory_order_relaxed);
    if (noted != 0 && noted != hash(i)) others.push_back(i);
  }
  return others;
}

std::string WrittenState::in_words(std::size_t number) const {
  const std::size_t buffers = state_.buffers().size();
  if (number < buffers) return "the buffer '" + state_.buffers()[number].name + "'";
  return "what shares carry as '" + state_.carried_rows()[number - buffers].name + "'";
}

// Shares have written to buffers meanwhile, and nobody to rows.
std::uint64_t WrittenState::hash(std::size_t number) {
  if (hashes_[number] != 0) return hashes_[number];
  const std::size_t buffers = state_.buffers().size();
  const std::uint64_t hash =
      number < buffers ? xxh3(buffer_in(state_, start_, number))
                       : xxh3(optim::bytes_of(state_.carried_rows()[number - buffers].tensor));
  return hashes_[number] = std::max<std::uint64_t>(hash, 1);
}

}  // namespace lockstep::transaction
