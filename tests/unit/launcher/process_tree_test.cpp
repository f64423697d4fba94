// Who is found among all processes, and who is spared: with real ones.
#include "launcher/processes/process_tree.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/processes.h"
#include "launcher/processes/process.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using test::until;

void reap(pid_t pid) { EXPECT_EQ(::waitpid(pid, nullptr, 0), pid); }

// Nobody may have reaped them: they are not waited for.
TEST(ProcessTree, AZombieIsNotThereUnlessItsThreadsAre) {
  std::atomic<pid_t> leader = ::fork();
  if (leader == 0) {
    ::setsid();
    ::_exit(0);
  }
  ASSERT_TRUE(until([&] { return stat_of(leader)->state == 'Z'; }, 20s));
  EXPECT_EQ(::getsid(leader), leader);
  // A sanitizer's thread may end a moment later.
  EXPECT_TRUE(until([&] { return !signal_sessions({&leader, 1}, 0); }, 20s));
  reap(leader);
  leader = ::fork();
  if (leader == 0) {
    ::setsid();
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // of this thread
  }
  ASSERT_TRUE(until([&] { return stat_of(leader)->state == 'Z'; }, 20s));
  EXPECT_TRUE(signal_sessions({&leader, 1}, SIGKILL));
  reap(leader);
}

// Its number may be anybody's by then.
TEST(ProcessTree, ASessionOfAReapedLeaderIsNobodysWhoHasItsNumber) {
  const pid_t other = ::fork();
  if (other == 0) {
    ::setsid();
    for (;;) ::pause();
  }
  ASSERT_TRUE(until([&] { return ::getsid(other) == other; }, 20s));
  std::atomic<pid_t> reaped = -other, alive = other;
  EXPECT_FALSE(signal_sessions({&reaped, 1}, SIGKILL));
  EXPECT_TRUE(signal_sessions({&alive, 1}, SIGKILL));
  reap(other);
}

// An older process may be stuck, so that to read what it was started with would wait; another
// control group's is another job's, or a service, whose first user was a worker.
TEST(ProcessTree, WhoIsOlderOrInAnotherControlGroupIsSpared) {
  const Mark mark = mark_of_this_process("A_NAME=of this test");
  SpawnSpec spec;
  spec.file = "/bin/sleep";
  spec.arguments = {"sleep", "60"};
  spec.environment = {mark.variable};
  const auto marked = spawn_process(spec);
  ASSERT_TRUE(marked.ok());
  ASSERT_TRUE(until([&] { return signal_marked(mark, 0); }, 20s));
  Mark later = mark, elsewhere = mark, longer = mark;
  later.since = stat_of(*marked)->start + 1;
  ++elsewhere.control_group;
  longer.variable += "!";
  for (const Mark& other : {later, elsewhere, longer})
    EXPECT_FALSE(signal_marked(other, SIGKILL)) << other.variable;
  EXPECT_NE(stat_of(*marked)->state, 'Z');
  EXPECT_TRUE(signal_marked(mark, SIGKILL));
  reap(*marked);
}

}  // namespace
}  // namespace lockstep::launcher
