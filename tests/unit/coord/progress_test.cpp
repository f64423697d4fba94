#include "coord/progress.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/coord/times.h"

namespace lockstep::coord {
namespace {

// What was told, of a run with 10 steps of 64 samples in a second.
struct Told {
  explicit Told(const ProgressMode& mode, std::size_t columns = 0)
      : progress(mode, {[columns] { return columns; },
                        [this](const std::string& text) { bars.push_back(text); },
                        [this](const std::string& text) { lines.push_back(text); }}) {}

  // Looks every 20 ms, from `from` to `to` seconds; `lost`: seconds whose steps are made anew.
  void run(double from, double to, std::uint64_t limit_ns = 0, std::uint64_t lost = 0) {
    for (int i = static_cast<int>(from * 50); i <= static_cast<int>(to * 50); ++i) {
      const std::uint64_t now = static_cast<std::uint64_t>(i) * kSecond / 50;
      view.steps = now * 10 / kSecond - lost * 10;
      view.samples = view.steps * 64;
      view.ran_ns = now;
      view.limit_ns = limit_ns;
      progress.see(view, 7 * kSecond + now);
    }
  }

  std::vector<std::string> bars, lines;
  RunView view{.total_steps = 36'000, .loss = 0.25, .workers = 3, .incidents = 1};
  Progress progress;
};

TEST(Progress, IsABarOnATerminal) {
  Told told({}, 200);
  told.run(0.1, 1800);
  EXPECT_EQ(told.bars.back(),
            "[##########..........]  50 %  step 18000/36000  640 samples/s  ETA 0:30:00  "
            "loss 0.2500  3 workers  1 incident");
  EXPECT_LE(told.bars.size(), 18'001U) << "ten in a second are enough";
  EXPECT_TRUE(told.lines.empty());
  told.progress.end();
  EXPECT_EQ(told.bars.back(), "");
  const std::size_t count = told.bars.size();
  told.progress.end();
  EXPECT_EQ(told.bars.size(), count);
}

TEST(Progress, FitsANarrowTerminal) {
  Told told({}, 40);
  told.run(0.1, 20);
  EXPECT_FALSE(told.bars.empty());
  for (const std::string& bar : told.bars) EXPECT_LE(bar.size(), 40U) << bar;
}

TEST(Progress, ElsewhereIsALineAfterAMinuteOfSilence) {
  Told told({});
  told.run(1, 59);
  EXPECT_TRUE(told.lines.empty());
  told.run(59, 62);
  ASSERT_EQ(told.lines.size(), 1U);
  EXPECT_EQ(told.lines[0].find("step 6"), 0U) << told.lines[0];
  told.progress.printed(7 * kSecond + 100 * kSecond);
  told.run(62, 159);
  EXPECT_EQ(told.lines.size(), 1U) << "the run has spoken itself";
  told.run(159, 162);
  EXPECT_EQ(told.lines.size(), 2U);
  EXPECT_TRUE(told.bars.empty());
}

TEST(Progress, ATimeLimitCountsWhereItComesFirst) {
  Told told({}, 200);
  told.run(1, 30, 60 * kSecond);
  EXPECT_EQ(told.bars.back().substr(0, 28), "[##########..........]  50 %");
  EXPECT_NE(told.bars.back().find("ETA 0:00:30"), std::string::npos) << told.bars.back();
}

TEST(Progress, OfARunWithoutAnEndHasNoPart) {
  Told told({}, 200);
  told.view.total_steps = 0;
  told.run(1, 30);
  EXPECT_EQ(told.bars.back(), "step 300  640 samples/s  loss 0.2500  3 workers  1 incident");
}

TEST(Progress, AGroupThatBeginsAgainHasARateOfItsOwn) {
  Told told({}, 200);
  told.run(10, 30);
  told.run(30, 33, 0, 25);
  EXPECT_NE(told.bars.back().find("step 80/36000  640 samples/s"), std::string::npos)
      << told.bars.back();
}

TEST(Progress, ModesAreReadStrictly) {
  EXPECT_TRUE(progress_mode("--progress", "auto")->bar);
  EXPECT_FALSE(progress_mode("--progress", "off")->tells);
  const auto often = progress_mode("--progress", "5");
  ASSERT_TRUE(often.ok());
  EXPECT_FALSE(often->bar);
  EXPECT_EQ(often->pause.count(), 5);
  Told told(*often, 200);
  told.run(1, 5);
  told.progress.printed(12 * kSecond);
  told.run(5, 12);
  EXPECT_EQ(told.lines.size(), 2U) << "whatever else is printed";
  for (const char* text : {"", "0", "-1", "1.5", "86401", "on", "5 "}) {
    const auto wrong = progress_mode("--progress", text);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(wrong.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(wrong.error().message.find("--progress takes"), 0U);
  }
}

TEST(Progress, OffIsOff) {
  Told told({.tells = false}, 200);
  told.run(1, 200);
  EXPECT_TRUE(told.bars.empty() && told.lines.empty());
}

}  // namespace
}  // namespace lockstep::coord
