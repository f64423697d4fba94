#include "base/stop_request.h"

#include <array>
#include <atomic>
#include <csignal>

#include "base/process_setup.h"

namespace lockstep {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
std::atomic<int> arrived{0};  // NOLINT(*-global-variables): a handler knows nothing else
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use it

void set(int number, void (*handler)(int), void (*instead_of)(int)) {
  struct sigaction now {};
  ::sigaction(number, nullptr, &now);
  if (now.sa_handler != instead_of) return;
  now.sa_handler = handler;
  now.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);  // a second one ends it at once
  ::sigaction(number, &now, nullptr);
}

void note(int number) { arrived = number; }

}  // namespace

StopRequest::StopRequest() {
  for (const int number : kSignals) set(number, note, SIG_DFL);
}

StopRequest::~StopRequest() {
  for (const int number : kSignals) set(number, SIG_DFL, note);
  if (!made()) return;
  flush_outputs();
  ::raise(arrived);
}

bool StopRequest::made() { return arrived != 0; }

}  // namespace lockstep
