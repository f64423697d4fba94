// A train state as flat bytes: what a newcomer copies from a live peer's shared memory, and the
// buffers that each step starts from. Equal in all workers at the same step. Not a file format:
// only a process of the same program reads it.
//
// Layout: parameters, buffers and the other tensors in the order of their registration, contiguous,
// each from a multiple of 64 bytes; then each text's length (8 bytes) and bytes, 1 MiB for all.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coord/board.h"
#include "lockstep/state.h"
#include "lockstep/status.h"

namespace lockstep::transaction {

std::uint64_t image_bytes(const TrainState& state);
// kUsage when the texts take more than 1 MiB. `image` has image_bytes().
Status store_image(const TrainState& state, std::span<std::byte> image);

// Tensors, in place. The image may be overwritten while it is read: so the texts' bytes come back
// unread, and go to load_texts() once the copy is known to be whole.
Result<std::vector<std::string>> load_tensors(const TrainState& state,
                                              std::span<const std::byte> image);
Status load_texts(const TrainState& state, const std::vector<std::string>& contents);

// The buffers alone.
std::uint64_t buffer_bytes(const TrainState& state);
void store_buffers(const TrainState& state, std::span<std::byte> image);
void load_buffers(const TrainState& state, std::span<const std::byte> image);
// One of them.
std::span<const std::byte> buffer_in(const TrainState& state, std::span<const std::byte> image,
                                     std::size_t number);
// XXH3-64 of each: of the state's, or of those in an image.
void hash_buffers(const TrainState& state, std::span<coord::Word> hashes);
void hash_buffers(const TrainState& state, std::span<const std::byte> image,
                  std::span<coord::Word> hashes);

}  // namespace lockstep::transaction
