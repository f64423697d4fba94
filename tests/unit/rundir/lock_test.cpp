#include "rundir/lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

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

// On a disk that machines share, whatever its locks are worth.
TEST(RunLock, OneOfARunsNodesHasTheDirectory) {
  const test::TempFolder folder;
  const NodeOfRun first{7, 0, "one"}, second{7, 1, "two"}, of_another_run{8, 1, "two"};
  EXPECT_TRUE(check_claim(folder.path(), second).ok());
  ASSERT_TRUE(claim_run_directory(folder.path(), first).ok());
  EXPECT_TRUE(claim_run_directory(folder.path(), first).ok()) << "again";
  for (const Status& refused :
       {claim_run_directory(folder.path(), second), check_claim(folder.path(), second)}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(refused.error().message,
              "the run directory '" + folder.path() + "' of node 1 is also that of node 0 (one): " +
                  "give each node its own, as --output '" + folder.path() + "/node-1' on this one");
  }
  std::ofstream(folder / ".tmp-lockstep-left") << "x";
  remove_leftovers(folder.path(), &first);
  EXPECT_FALSE(std::filesystem::exists(folder / ".tmp-lockstep-left"));
  EXPECT_FALSE(check_claim(folder.path(), second).ok()) << "the claim stays";
  ASSERT_TRUE(claim_run_directory(folder.path(), of_another_run).ok())
      << "an earlier run's is in nobody's way";
  remove_leftovers(folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep::rundir
