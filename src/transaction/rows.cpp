#include "transaction/rows.h"

#include <cassert>
#include <cstring>

#include "base/hash.h"

namespace lockstep::transaction {
namespace {

std::uint64_t up_to_a_line(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

std::uint64_t bytes_of_one(const at::Tensor& rows) {
  return rows.nbytes() / static_cast<std::uint64_t>(rows.size(0));
}

}  // namespace

std::uint64_t row_bytes(const TrainState& state) {
  std::uint64_t bytes = 0;
  for (const TrainState::Named& carried : state.carried_rows())
    bytes += up_to_a_line(bytes_of_one(carried.tensor));
  return bytes;
}

void store_row(const std::vector<at::Tensor>& rows, std::span<std::byte> block) {
  for (const at::Tensor& row : rows) {
    assert(row.nbytes() <= block.size());
    if (row.nbytes() > 0) std::memcpy(block.data(), row.const_data_ptr(), row.nbytes());
    block = block.subspan(up_to_a_line(row.nbytes()));
  }
}

void load_row(const TrainState& state, std::uint32_t v, std::span<const std::byte> block) {
  for (const TrainState::Named& carried : state.carried_rows()) {
    const std::uint64_t bytes = bytes_of_one(carried.tensor);
    auto* const rows = static_cast<std::byte*>(carried.tensor.mutable_data_ptr());
    if (bytes > 0) std::memcpy(rows + v * bytes, block.data(), bytes);
    block = block.subspan(up_to_a_line(bytes));
  }
}

void hash_row(const TrainState& state, std::span<const std::byte> block,
              std::span<coord::Word> hashes) {
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::uint64_t bytes = bytes_of_one(state.carried_rows()[i].tensor);
    hashes[i].store(xxh3(block.first(bytes)), std::memory_order_relaxed);
    block = block.subspan(up_to_a_line(bytes));
  }
}

}  // namespace lockstep::transaction
