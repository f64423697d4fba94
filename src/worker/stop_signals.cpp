#include "worker/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "coord/descriptors.h"

namespace lockstep::worker {
namespace {

// A handler knows nothing else.
// NOLINTBEGIN(*-global-variables)
std::atomic<coord::Word*> shown_in{nullptr};
coord::Word not_shown_yet{0};  // where there is no board
std::atomic<pid_t> noting_process{0};
sigset_t caught;
// NOLINTEND(*-global-variables)
static_assert(std::atomic<coord::Word*>::is_always_lock_free && coord::Word::is_always_lock_free &&
              std::atomic<pid_t>::is_always_lock_free);  // a handler may use them

void note_signal(int number) {
  if (::getpid() !=
      noting_process) {  // a child of the worker's has inherited this: it is no worker
    ::signal(number, SIG_DFL);
    ::raise(number);
    return;
  }
  coord::Word* const word = shown_in.load();
  std::uint64_t none = 0;
  (word != nullptr ? word : &not_shown_yet)
      ->compare_exchange_strong(none, static_cast<std::uint64_t>(number));
}

void catch_signal(int number) {
  struct sigaction now {};
  if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  now = {};
  now.sa_handler = note_signal;
  now.sa_flags = SA_RESTART;
  if (::sigaction(number, &now, nullptr) == 0) sigaddset(&caught, number);
}

}  // namespace

void catch_stop_signals() {
  noting_process = ::getpid();
  not_shown_yet = 0;
  sigemptyset(&caught);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) catch_signal(number);
  const char* text = std::getenv(coord::kSignalsVariable);
  std::string_view list = text == nullptr ? "" : text;
  while (const auto number = take_number<int>(list, "")) {
    catch_signal(*number);
    if (!list.empty()) list.remove_prefix(1);
  }
}

void show_stop_signals(coord::Word& word) {
  shown_in = &word;
  std::uint64_t none = 0;
  if (const std::uint64_t number = not_shown_yet.exchange(0))
    word.compare_exchange_strong(none, number);
}

int release_stop_signals() {
  if (::getpid() != noting_process) return 0;
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction now {};
    if (sigismember(&caught, number) == 1 && ::sigaction(number, nullptr, &now) == 0 &&
        now.sa_handler == note_signal)
      ::signal(number, SIG_DFL);
  }
  sigemptyset(&caught);
  noting_process = 0;
  coord::Word* const word = shown_in.exchange(nullptr);
  return static_cast<int>(word != nullptr ? word->load() : not_shown_yet.load());
}

}  // namespace lockstep::worker
