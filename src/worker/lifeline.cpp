#include "worker/lifeline.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <variant>

#include "base/log.h"
#include "base/signals_blocked.h"
#include "coord/channel.h"

namespace lockstep::worker {

Result<std::unique_ptr<Lifeline>> Lifeline::open(UniqueFd agent) {
  UniqueFd ended(::eventfd(0, EFD_CLOEXEC));
  if (!ended)
    return Error{ErrorKind::kUnavailable, std::string("eventfd: ") + std::strerror(errno)};
  std::unique_ptr<Lifeline> lifeline(new Lifeline(std::move(agent), std::move(ended)));
  try {
    const SignalsBlocked blocked;
    lifeline->thread_ = std::thread([self = lifeline.get()] { self->watch(); });
  } catch (const std::system_error& error) {
    return Error{ErrorKind::kUnavailable,
                 std::string("no thread to watch the launcher: ") + error.what()};
  }
  return lifeline;
}

Lifeline::~Lifeline() {
  let_go();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(ended_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

// Without a deadline: as long as the session.
void Lifeline::watch() {
  pollfd entries[] = {{agent_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}};
  while (::poll(entries, 2, -1) < 0) {
  }
  if (let_go_) return;
  const auto received = coord::receive(agent_.get(), Deadline::in({}));
  const auto* end = received.ok() ? std::get_if<coord::message::End>(&received->message) : nullptr;
  if (end != nullptr) {
    if (!end->text.empty()) log(end->code == 0 ? LogLevel::kInfo : LogLevel::kError, end->text);
    ::_exit(end->code);
  }
  log_error(
      "the launcher of this run is gone: it was killed, or has failed; this worker ends with it. "
      "Start all ranks again: they go on from the newest checkpoint");
  ::_exit(1);
}

}  // namespace lockstep::worker
