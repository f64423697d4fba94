// The console and the logs, whatever the readers do.
#include "fault/launcher_support.h"

namespace lockstep::test {
namespace {

using ConsoleReader = ToyRun;

// Also where the stack has room for little: 64 KiB.
TEST_F(ConsoleReader, LogsNeedNoLargeStack) {
  const Outcome outcome =
      run({"/bin/sh", "-c", "ulimit -s 64; exec \"$@\"", "sh", LOCKSTEP_PROGRAM, "run", "--tee",
           "3", "--log-dir", folder_ / "logs", "/bin/sh", "-c", "echo one; echo two >&2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[default0]:one\n");
  EXPECT_EQ(outcome.err, "[default0]:two\n");
}

}  // namespace
}  // namespace lockstep::test
