#include "control/timers.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace lockstep::control {

Result<std::unique_ptr<Timers>> Timers::open(Loop& loop) {
  UniqueFd clock(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!clock)
    return Error{ErrorKind::kUnavailable, std::string("timerfd_create: ") + std::strerror(errno)};
  std::unique_ptr<Timers> timers(new Timers(loop, std::move(clock)));
  LOCKSTEP_TRY(loop.add(timers->clock_.get(), [self = timers.get()] { self->ring(); }));
  return timers;
}

// A handler may hold what holds its timer; and what handlers hold may cancel others when it goes.
Timers::~Timers() {
  loop_.remove(clock_.get());
  std::vector<Handler> handlers;
  for (const auto& [moment, pending] : *queue_)
    handlers.push_back(std::exchange(pending->handler, nullptr));
  queue_.reset();
}

Timers::Timer Timers::at(Deadline moment, Handler handler) {
  auto pending = std::make_shared<Timer::Pending>(
      Timer::Pending{std::move(handler), queue_, Queue::iterator()});
  pending->place = queue_->emplace(moment.point(), pending);
  if (pending->place == queue_->begin()) wind();
  return Timer(std::move(pending));
}

void Timers::Timer::cancel() {
  const auto pending = std::move(pending_);
  if (!pending || !pending->handler) return;  // it has been called
  const Handler handler = std::exchange(pending->handler, nullptr);
  if (const auto queue = pending->queue.lock()) queue->erase(pending->place);
}

Timers::Timer& Timers::Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    pending_ = std::move(other.pending_);
  }
  return *this;
}

void Timers::ring() {
  std::uint64_t times = 0;
  (void)!::read(clock_.get(), &times, sizeof times);
  const auto queue = queue_;  // a handler may end this object
  const auto now = Deadline::Clock::now();
  while (!queue->empty() && queue->begin()->first <= now) {
    const auto pending = queue->begin()->second;
    queue->erase(queue->begin());
    const Handler handler = std::exchange(pending->handler, nullptr);
    handler();
    if (queue.use_count() == 1) return;
  }
  wind();
}

void Timers::wind() {
  itimerspec when{};  // none: it does not ring
  if (!queue_->empty()) {
    using std::chrono::nanoseconds;
    // 0 would switch it off.
    const auto left =
        std::max(nanoseconds(1), nanoseconds(queue_->begin()->first - Deadline::Clock::now()));
    when.it_value.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
  }
  ::timerfd_settime(clock_.get(), 0, &when, nullptr);
}

}  // namespace lockstep::control
