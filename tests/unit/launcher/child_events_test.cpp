// What the launcher is told of its children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "launcher/processes/process.h"

namespace lockstep::launcher {
namespace {

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string all;
  std::getline(file, all);
  return all[all.rfind(')') + 2] == 'T';
}

// It may be stopped again while the news that it goes on is read: the last that is told is how it
// is.
TEST(ChildEvents, TheLastIsHowItIs) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  std::optional<ChildEvent> told;
  const auto read = [&] {
    while (const auto event = next_child_event()) told = event;
  };
  for (int round = 0; round < 500; ++round) {
    std::atomic<bool> is_sent = false;
    std::thread sender([&] {
      ::kill(child, SIGCONT);
      for (volatile int spin = 0; spin < 50 * (round % 100);) spin = spin + 1;
      ::kill(child, SIGSTOP);
      is_sent = true;
    });
    while (!is_sent) read();
    sender.join();
    while (!is_stopped(child)) read();
    read();
    ASSERT_TRUE(told);
    ASSERT_EQ(told->kind, ChildEvent::kStopped) << round;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace lockstep::launcher
