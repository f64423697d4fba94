#include "links/fake/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep::links {
namespace {

constexpr std::size_t kMostHeld = 64 * 1024;

}  // namespace

Relay::Relay(Loop& loop, UniqueFd one, UniqueFd other)
    : loop_(loop), ends_{End{std::move(one), ""}, End{std::move(other), ""}} {
  watch(0);
  watch(1);
}

void Relay::close() {
  for (End& end : ends_) {
    if (end.watched) loop_.remove(end.socket.get());
    end.watched = false;
    end.socket.reset();
  }
}

void Relay::stall(bool stalls) {
  stalled_ = stalls;
  if (!stalls) left_ = kForEver;
  if (is_over()) return;
  watch(0);
  watch(1);
}

// What it is ready for depends on what is held for it and for the other.
void Relay::watch(std::size_t index) {
  End& end = ends_[index];
  const bool reads = ends_[1 - index].held.empty(), writes = !end.held.empty();
  const bool wanted = !stalled_ && (reads || writes);
  const auto readiness = reads && writes ? Loop::kBoth : reads ? Loop::kReadable : Loop::kWritable;
  if (wanted == end.watched && (!wanted || readiness == end.readiness)) return;
  if (end.watched) loop_.remove(end.socket.get());
  end.watched = wanted && loop_
                              .add(
                                  end.socket.get(), [this] { carry(); }, readiness)
                              .ok();
  end.readiness = readiness;
}

void Relay::carry() {
  if (stalled_ || is_over()) return;
  for (std::size_t i = 0; i < 2; ++i)
    if (!read(ends_[i], ends_[1 - i]) || !write(ends_[1 - i])) return close();
  if (left_ == 0 && closes_) return close();
  if (left_ == 0) return stall(true);
  watch(0);
  watch(1);
}

bool Relay::read(End& from, End& to) {
  if (!to.held.empty()) return true;
  to.held.resize(kMostHeld);
  const ssize_t count = ::recv(from.socket.get(), to.held.data(), to.held.size(), 0);
  to.held.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

bool Relay::write(End& to) {
  if (to.held.empty()) return true;
  const ssize_t count =
      ::send(to.socket.get(), to.held.data(), std::min(to.held.size(), left_), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  to.held.erase(0, static_cast<std::size_t>(count));
  if (left_ != kForEver) left_ -= static_cast<std::size_t>(count);
  return true;
}

}  // namespace lockstep::links
