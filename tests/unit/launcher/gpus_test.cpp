#include "launcher/options/gpus.h"

#include <gmock/gmock.h>

namespace lockstep::launcher {
namespace {

// What torch.cuda.device_count() of torch 2.11 gives with these on a machine of four GPUs.
TEST(Gpus, AsManyAsTorchCounts) {
  const std::vector<std::pair<std::vector<std::string>, int>> counts{{{}, 4},
                                                                     {{""}, 0},
                                                                     {{"0"}, 1},
                                                                     {{"3", "1"}, 2},
                                                                     {{" 2", "+1"}, 2},
                                                                     {{"0", "-1", "1"}, 1},
                                                                     {{"-1"}, 0},
                                                                     {{"1", "9", "2"}, 1},
                                                                     {{"1", "2", "1"}, 0},
                                                                     {{"1x", "y"}, 1},
                                                                     {{"99999999999999999999"}, 0},
                                                                     {{"GPU-7", "GPU-8"}, 2},
                                                                     {{"GPU-7", "0"}, 1},
                                                                     {{"GPU-7", "GPU-7"}, 0},
                                                                     {{"MIG-1"}, 1}};
  for (const auto& [devices, count] : counts)
    EXPECT_EQ(visible_gpus(devices, 4), count) << testing::PrintToString(devices);
}

Result<int> eight() { return 8; }
Result<int> no_gpus() { return 0; }

LaunchOptions with(WorkersFrom from) {
  LaunchOptions options;
  options.nproc_per_node = 16;
  options.nproc_from = from;
  return options;
}

TEST(Gpus, AutoIsGpusIfThereAreAny) {
  LaunchOptions plain = with(WorkersFrom::kAuto), none = plain, linked = plain;
  EXPECT_TRUE(settle_workers(plain, false, eight).ok());
  EXPECT_TRUE(settle_workers(none, false, no_gpus).ok());
  EXPECT_TRUE(settle_workers(linked, true, eight).ok());
  EXPECT_EQ(plain.nproc_per_node, 8);
  EXPECT_EQ(none.nproc_per_node, 16);
  EXPECT_EQ(linked.nproc_per_node, 16);
}

TEST(Gpus, WithoutAnyTheyAreNotGivenUpSilently) {
  LaunchOptions none = with(WorkersFrom::kGpu), linked = none, number = with(WorkersFrom::kNumber);
  EXPECT_FALSE(settle_workers(none, false, no_gpus).ok());
  EXPECT_FALSE(settle_workers(linked, true, eight).ok());
  EXPECT_TRUE(settle_workers(number, false, eight).ok());
  EXPECT_EQ(number.nproc_per_node, 16);
}

// As many as CPUs would be another run.
TEST(Gpus, ADriverThatDoesNotAnswerIsNotOneWithoutGpus) {
  const auto silent = []() -> Result<int> { return Error{ErrorKind::kUnavailable, "no answer"}; };
  LaunchOptions plain = with(WorkersFrom::kAuto);
  EXPECT_FALSE(settle_workers(plain, false, silent).ok());
}

}  // namespace
}  // namespace lockstep::launcher
