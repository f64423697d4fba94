#include "coord/board_memory.h"

#include <sys/mman.h>

namespace lockstep::coord {

void* map_board(int memory, std::uint64_t bytes) {
  const int kind = memory < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const first =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, memory, 0);
  // Of a mapping like this one it cannot fail.
  if (first != MAP_FAILED) (void)::madvise(first, bytes, MADV_DONTDUMP);
  return first;
}

}  // namespace lockstep::coord
