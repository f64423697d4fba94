// The board's memory, in the agent and in its workers.
#pragma once

#include <cstdint>

namespace lockstep::coord {

// Maps so many bytes of a board's descriptor, or of fresh memory for this process alone where that
// is -1; hardly any of it is ever used. No core dump has it: whoever writes or reads one would go
// through a TiB. Returns what mmap returns; the caller unmaps it. Threads: any.
void* map_board(int memory, std::uint64_t bytes);

}  // namespace lockstep::coord
