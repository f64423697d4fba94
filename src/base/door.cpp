#include "base/door.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kRest = 50ms;
constexpr int kMostATurn = 64;

}  // namespace

Door::~Door() {
  if (open_) loop_.remove(listener_);
}

// A turn lets several in, and the look for one more must not wait for it.
Status Door::open() {
  const int flags = ::fcntl(listener_, F_GETFL);
  if (flags < 0 || ::fcntl(listener_, F_SETFL, flags | O_NONBLOCK) != 0)
    return Error{ErrorKind::kUnavailable,
                 std::string("a listening socket that blocks: ") + std::strerror(errno)};
  LOCKSTEP_TRY(loop_.add(listener_, [this] { let_in(kMostATurn); }));
  open_ = true;
  rests_until_.reset();
  return {};
}

bool Door::accept() {
  UniqueFd connection(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection) {
    visit_(std::move(connection));
    return true;
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
    return errno != EAGAIN;  // an error of that connection
  loop_.remove(listener_);
  open_ = false;
  rests_until_ = Deadline::in(kRest);
  return false;
}

// The queue's length bounds their number; more may come while we look.
void Door::let_all_in() { let_in(2 * SOMAXCONN); }

void Door::let_in(int most) {
  for (int i = 0; i < most && accept(); ++i) {
  }
}

void Door::look() {
  if (rests_until_ && rests_until_->passed()) (void)open().ok();  // else it goes on resting
}

}  // namespace lockstep
