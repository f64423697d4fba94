#include "launcher/linked/shared_board.h"

#include <gtest/gtest.h>

#include "support/memory_flags.h"

namespace lockstep::launcher {
namespace {

TEST(SharedBoard, ACoreDumpOfTheLauncherIsWithoutIt) {
  const auto board = SharedBoard::make();
  ASSERT_TRUE(board.ok()) << board.error().message;
  const std::byte* const base = board->view().base();
  EXPECT_TRUE(test::is_kept_from_core_dumps(base)) << test::memory_flags(base);
  EXPECT_TRUE(test::is_kept_from_core_dumps(base + coord::kBoardBytes - 1));
  EXPECT_FALSE(test::is_kept_from_core_dumps(&board));
}

}  // namespace
}  // namespace lockstep::launcher
