// What a virtual worker carries from step to step (TrainState::add_carried()), as flat bytes: its
// row of each of state.carried_rows(), in their order, each from a multiple of 64 bytes.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coord/board.h"
#include "lockstep/state.h"

namespace lockstep::transaction {

// Of one virtual worker; 0: nothing is carried.
std::uint64_t row_bytes(const TrainState& state);

// `rows`: one for each of state.carried_rows(), contiguous.
void store_row(const std::vector<at::Tensor>& rows, std::span<std::byte> block);
// Into the state.
void load_row(const TrainState& state, std::uint32_t v, std::span<const std::byte> block);
// XXH3-64 of each.
void hash_row(const TrainState& state, std::span<const std::byte> block,
              std::span<coord::Word> hashes);

}  // namespace lockstep::transaction
