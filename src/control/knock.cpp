#include "control/knock.h"

#include <cerrno>

#include "control/sockets.h"

namespace lockstep::control {

using namespace std::chrono_literals;

std::unique_ptr<Knock> Knock::start(Loop& loop, Timers& timers, const Address& at,
                                    const std::optional<Address>& from,
                                    std::function<void()> refused) {
  std::unique_ptr<Knock> knock(new Knock(loop, timers, at, from, std::move(refused)));
  knock->again_ = timers.in(0ms, [self = knock.get()] { self->knock(); });
  return knock;
}

Knock::~Knock() {
  if (socket_) loop_.remove(socket_.get());
}

void Knock::knock() {
  if (const int error = connect(); error != 0) answered(error);
}

// An errno, or 0.
int Knock::connect() {
  socket_ = UniqueFd(::socket(at_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return errno;
  if (const int error = begin_connect(socket_.get(), at_, from_); error != 0) return error;
  const Status added = loop_.add(
      socket_.get(),
      [this] {
        const int error = error_of_connect(socket_.get());
        loop_.remove(socket_.get());
        answered(error);
      },
      Loop::kWritable);
  return added.ok() ? 0 : ENOMEM;
}

void Knock::answered(int error) {
  socket_.reset();
  if (error == ECONNREFUSED) {
    const auto refused = refused_;  // which may destroy this
    return refused();
  }
  again_ = timers_.in(pause_, [this] { knock(); });
  pause_ *= 2;
}

}  // namespace lockstep::control
