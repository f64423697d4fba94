#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace lockstep {
namespace {

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

void ring(Doorbell& bell) {
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell.waiting.load(std::memory_order_seq_cst) != 0) futex(&bell.rings, FUTEX_WAKE, 1, nullptr);
}

void wait(Doorbell& bell, std::uint32_t seen, Deadline deadline) {
  bell.waiting.store(1, std::memory_order_seq_cst);
  if (bell.rings.load(std::memory_order_seq_cst) == seen) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.left()).count();
    const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    futex(&bell.rings, FUTEX_WAIT, seen, &timeout);
  }
  bell.waiting.store(0, std::memory_order_relaxed);
}

}  // namespace lockstep
