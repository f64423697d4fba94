#include "rundir/lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

using namespace std::chrono_literals;

TEST(RunLock, WhoHasTheDirectoryIsNamed) {
  const test::TempFolder folder;
  const auto lock = lock_run_directory(folder / "run", Deadline::in(0s));
  ASSERT_TRUE(lock.ok());
  const auto second = lock_run_directory(folder / "run", Deadline::in(0s));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(second.error().message.find("(process " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << second.error().message;
}

}  // namespace
}  // namespace lockstep::rundir
