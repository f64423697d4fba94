#include "carrier/bell_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/signals_blocked.h"

namespace lockstep::carrier {

Result<std::unique_ptr<BellWatch>> BellWatch::start(Loop& loop, Doorbell& bell,
                                                    std::chrono::microseconds rest,
                                                    std::function<void()> rung) {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event)
    return Error{ErrorKind::kUnavailable, std::string("eventfd: ") + std::strerror(errno)};
  std::unique_ptr<BellWatch> made(new BellWatch(loop, bell, rest, std::move(event)));
  LOCKSTEP_TRY(loop.add(made->event_.get(), [fd = made->event_.get(), call = std::move(rung)] {
    std::uint64_t times = 0;
    (void)!::read(fd, &times, sizeof times);
    call();
  }));
  const std::uint32_t seen = bell.rings.load(std::memory_order_acquire);
  const SignalsBlocked blocked;
  made->thread_ = std::thread([watch = made.get(), seen] { watch->watch(seen); });
  return made;
}

BellWatch::~BellWatch() {
  loop_.remove(event_.get());
  ends_.store(true, std::memory_order_release);
  ring(bell_);
  if (thread_.joinable()) thread_.join();
}

void BellWatch::watch(std::uint32_t seen) {
  const std::uint64_t once = 1;
  while (!ends_.load(std::memory_order_acquire)) {
    wait(bell_, seen, Deadline::in(std::chrono::seconds(1)));
    const std::uint32_t now = bell_.rings.load(std::memory_order_acquire);
    if (std::exchange(seen, now) == now) continue;
    (void)!::write(event_.get(), &once, sizeof once);
    if (!ends_.load(std::memory_order_acquire)) pause(rest_);
  }
}

}  // namespace lockstep::carrier
