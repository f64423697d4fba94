#include "base/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace lockstep {

Result<Loop> Loop::open() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd)
    return Error{ErrorKind::kUnavailable, std::string("epoll_create1: ") + std::strerror(errno)};
  return Loop(std::move(fd));
}

Status Loop::add(int fd, Handler handler, Readiness readiness) {
  epoll_event event{};
  if (readiness != kWritable) event.events |= EPOLLIN;
  if (readiness != kReadable) event.events |= EPOLLOUT;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Error{ErrorKind::kUnavailable, std::string("epoll_ctl: ") + std::strerror(errno)};
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return {};
}

void Loop::remove(int fd) {
  if (handlers_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Loop::run_once(Deadline deadline) {
  std::array<epoll_event, 64> events;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::min<std::int64_t>(left, 60'000)));
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == handlers_.end()) continue;  // removed by an earlier handler of this round
    const std::shared_ptr<Handler> handler = found->second;
    (*handler)();
  }
}

}  // namespace lockstep
