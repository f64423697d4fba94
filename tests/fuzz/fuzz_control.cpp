// Any bytes as what a launcher hears from a stranger: as TLS, and on a connection without a key,
// behind a right preface or not. The rest of a session goes by unharmed.
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "control/connection.h"
#include "control/tls.h"

using namespace lockstep;
using namespace lockstep::control;

namespace {

void as_tls(std::string_view bytes) {
  static const auto settings =
      *TlsSettings::of(*RunKey::of("0123456789abcdef0123456789abcdef", ""));
  for (const Side side : {Side::kListens, Side::kDials}) {
    auto tls = Tls::begin(settings, side, "run");
    std::string plain, answer;
    if (!tls.ok() || tls->receive({}, plain, answer)) std::abort();
    (void)tls->receive(bytes, plain, answer);
    if (tls->established() || !plain.empty()) std::abort();  // nobody without the key gets in
  }
}

void as_connection(std::string_view bytes, bool greeted) {
  using namespace std::chrono_literals;
  auto loop = Loop::open();
  if (!loop.ok()) return;
  const auto timers = *Timers::open(*loop);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return;
  UniqueFd stranger(pair[0]);
  Connection::Plan plan{Side::kListens, {kProtocol, 1, "1.2.3"}, nullptr, "", "a stranger"};
  int ends = 0;
  Connection::Events events;
  events.frame = [](std::string_view frame) {
    if (frame.empty() || frame.size() > kMostFrameBytes) std::abort();
  };
  events.ended = [&](const Failure&) { ++ends; };
  const auto connection =
      Connection::start(*loop, *timers, UniqueFd(pair[1]), std::move(plan), std::move(events));
  const std::string said =
      (greeted ? preface_of({kProtocol, 2, "1.2.3"}) : "") + std::string(bytes);
  (void)!::send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL);
  stranger.reset();
  const Deadline end = Deadline::in(3s);
  while (!connection->is_over() && !end.passed()) loop->run_once(Deadline::in(10ms));
  if (ends != 1 || !connection->is_over()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      as_tls(bytes);
      break;
    default:
      as_connection(bytes, data[0] % 3 == 1);
  }
  return 0;
}
