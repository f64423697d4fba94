#include "train/closing_remarks.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/temp_folder.h"

namespace lockstep::training {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Told {
  RunSpec spec;
  Hooks hooks;
  TrainState state;
  EpochBook book;
  std::string all(std::int64_t steps = 10, std::uint64_t idle_steps = 0) const {
    std::string text;
    const EndOfRun end{spec, hooks, state, &book, steps, idle_steps, 0};
    for (const std::string& remark : closing_remarks(end)) text += remark + "\n";
    return text;
  }
};

TEST(ClosingRemarks, OfAGoodRunNothingIsSaid) {
  Told told;
  told.hooks.best = BestOf::kLoss;
  EXPECT_EQ(told.all(), "");  // no epoch has ended
  told.book.end(0, {2.0, 1, 2}, 0.1, BestOf::kLoss);
  EXPECT_EQ(told.all(), "");
  EXPECT_EQ(told.all(10, 9), "");  // a scaler leaves some out
}

TEST(ClosingRemarks, ABestThatNeverWasIsTold) {
  Told told;
  told.hooks.best = BestOf::kLoss;
  told.book.end(0, {kNan, 1, 2}, 0.1, BestOf::kLoss);
  EXPECT_NE(told.all().find("no epoch was the best: the evaluation's loss was not a number"),
            std::string::npos)
      << told.all();
  told.book.end(1, {2.0, 1, 2}, 0.1, BestOf::kLoss);
  EXPECT_EQ(told.all(), "");
}

TEST(ClosingRemarks, APlateauThatWasNeverGivenANumberIsTold) {
  Told told;
  const at::Tensor weight = at::ones({1});
  SGD optimizer({weight}, {.lr = 0.1});
  ReduceLROnPlateau scheduler(optimizer, {});
  ASSERT_TRUE(told.state.add("scheduler", scheduler).ok());
  EXPECT_EQ(told.all(), "");
  scheduler.step(kNan);
  told.book.end(0, {kNan, 1, 2}, 0.1, BestOf::kNothing);
  EXPECT_NE(told.all().find("ReduceLROnPlateau was never given a number"), std::string::npos);
  scheduler.step(1.5);
  EXPECT_EQ(told.all(), "");
}

TEST(ClosingRemarks, AFileThatIsNotThereIsTold) {
  const test::TempFolder folder;
  Told told;
  told.spec.options.files = {folder / "here", folder / "not here"};
  folder.write("here", "");
  EXPECT_EQ(told.all(), "not written: '" + (folder / "not here") + "'\n");
}

TEST(ClosingRemarks, StepsThatChangedNothingAreTold) {
  Told told;
  EXPECT_EQ(told.all(10, 10),
            "all 10 steps changed nothing: their updates were left out, as no share took part (the "
            "closure returned an undefined tensor)\n");
  told.spec.options.on_nan = OnNan::kSkip;
  EXPECT_NE(told.all(10, 10).find("had an infinity or a NaN, or no share took part"),
            std::string::npos);
  told.hooks.loss = [](Share&) { return at::Tensor(); };  // a Trainer's
  EXPECT_NE(told.all(10, 10).find("had an infinity or a NaN. Try"), std::string::npos);
  GradScaler scaler;
  ASSERT_TRUE(told.state.add("scaler", scaler).ok());
  EXPECT_EQ(told.all(10, 9), "");
  scaler.state().front().second.zero_();
  EXPECT_NE(told.all(10, 9).find("the last 9 steps changed nothing"), std::string::npos);
  EXPECT_NE(told.all(10, 9).find("scale has fallen to 0"), std::string::npos);
}

TEST(EpochEnds, ANanHasNoSign) {
  EpochBook book;
  book.end(0, {-kNan, -kNan, 2}, 0.1, BestOf::kNothing);
  EXPECT_FALSE(std::signbit(book.last().loss));
  EXPECT_FALSE(std::signbit(book.last().train_loss));  // 0 / 0
}

}  // namespace
}  // namespace lockstep::training
