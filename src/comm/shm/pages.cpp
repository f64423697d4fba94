#include "comm/shm/pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

namespace lockstep::comm::shm {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;

}  // namespace

void prefault(std::byte* first, std::size_t bytes, Access access) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(first) / kPageBytes * kPageBytes;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(first) + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const int advice = access == Access::kWrite ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0) return;
  for (std::uintptr_t page = begin; page < end; page += kPageBytes) {
    // Peers may be writing there: an atomic "or 0" faults the page in and changes nothing.
    std::atomic_ref<std::uint32_t> word(*reinterpret_cast<std::uint32_t*>(page));
    if (access == Access::kWrite)
      word.fetch_or(0, std::memory_order_relaxed);
    else
      (void)word.load(std::memory_order_relaxed);
  }
}

}  // namespace lockstep::comm::shm
