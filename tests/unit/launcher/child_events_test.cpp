// What the launcher is told of its children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/deadline.h"
#include "launcher/processes/process.h"

namespace lockstep::launcher {
namespace {

// It may be stopped again while the news that it goes on is read: the last that is told is how it
// is.
TEST(ChildEvents, TheLastIsHowItIs) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  bool is_told = true;
  for (int round = 0; is_told && round < 500; ++round) {
    std::thread sender([&] {
      ::kill(child, SIGCONT);
      for (volatile int spin = 0; spin < 50 * (round % 100);) spin = spin + 1;
      ::kill(child, SIGSTOP);
    });
    // Told once all of its threads have stopped: a sanitizer may have given it some. Without a
    // pause: what is looked for lasts for a moment.
    const Deadline enough = Deadline::in(std::chrono::seconds(60));
    for (is_told = false; !is_told && !enough.passed();)
      if (const auto event = next_child_event()) is_told = event->kind == ChildEvent::kStopped;
    sender.join();
    EXPECT_TRUE(is_told) << round;
    EXPECT_FALSE(next_child_event()) << round;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace lockstep::launcher
