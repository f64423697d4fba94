#include "rundir/time_stop.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

TEST(TimeStop, IsWrittenAndRead) {
  test::TempFolder folder;
  EXPECT_FALSE(*read_time_stop(posix_env(), folder.path()));
  EXPECT_TRUE(remove_time_stop(posix_env(), folder.path()).ok());
  ASSERT_TRUE(write_time_stop(posix_env(), folder.path(), {41, 7200, 7200.25}).ok());
  EXPECT_EQ(folder.read("stop.json"),
            "{\"stop_after_step\":41,\"limit_s\":7200.0,\"run_s\":7200.25}\n");
  EXPECT_EQ(**read_time_stop(posix_env(), folder.path()), (TimeStop{41, 7200, 7200.25}));
  for (const char* damaged : {"", "[]", "{}", R"({"stop_after_step":-1,"limit_s":1,"run_s":1})",
                              R"({"stop_after_step":0,"limit_s":1,"run_s":1})",
                              R"({"stop_after_step":1.5,"limit_s":1,"run_s":1})"}) {
    folder.write("stop.json", damaged);
    EXPECT_EQ(read_time_stop(posix_env(), folder.path()).error().kind, ErrorKind::kBadData)
        << damaged;
  }
  EXPECT_TRUE(remove_time_stop(posix_env(), folder.path()).ok());
  EXPECT_FALSE(*read_time_stop(posix_env(), folder.path()));
}

}  // namespace
}  // namespace lockstep::rundir
