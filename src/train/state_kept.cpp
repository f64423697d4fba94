#include "train/state_kept.h"

#include <cstddef>

#include "optim/tensor_bytes.h"

namespace lockstep::training {
namespace {

using optim::version_of;

// In the order of TrainState::hashes(), buffers left out.
std::vector<std::uint32_t> versions_of(const TrainState& state) {
  std::vector<std::uint32_t> versions;
  for (const auto* tensors : {&state.parameters(), &state.other_tensors()})
    for (const TrainState::Named& named : *tensors) versions.push_back(version_of(named.tensor));
  // Half weights, behind their masters.
  if (!state.master_weights().empty())
    for (const TrainState::Named& leaf : state.leaves())
      versions.push_back(version_of(leaf.tensor));
  return versions;
}

}  // namespace

StateKept::StateKept(const TrainState& state, std::span<const std::uint64_t> hashes)
    : state_(state), versions_(versions_of(state)), hashes_(hashes) {}

std::string StateKept::changed() const {
  const std::size_t parameters = state_.parameters().size(), buffers = state_.buffers().size();
  const std::size_t tensors = state_.tensor_count();
  const std::vector<std::uint32_t> versions = versions_of(state_);
  // Half weights have no hashes: their masters have.
  const std::size_t hashed = hashes_.empty() ? 0 : tensors - buffers;
  for (std::size_t i = hashed; i < versions.size(); ++i) {
    if (versions[i] == versions_[i]) continue;
    const std::size_t number = i < parameters ? i : i + buffers;
    return state_.part_in_words(number < tensors ? number : number - tensors);
  }
  if (hashes_.empty()) return "";
  const std::vector<std::uint64_t> hashes = state_.hashes();
  for (std::size_t i = 0; i < hashes.size(); ++i)
    if (hashes[i] != hashes_[i] && (i < parameters || i >= parameters + buffers))
      return state_.part_in_words(i);
  return "";
}

bool StateKept::put_back() const { return !hashes_.empty() && versions_of(state_) != versions_; }

}  // namespace lockstep::training
