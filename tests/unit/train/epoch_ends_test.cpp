#include "train/epoch_ends.h"

#include <gtest/gtest.h>

namespace lockstep::training {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// Three steps an epoch; behind them its end and its files.
class EpochTimes : public testing::Test {
 protected:
  EpochTimes() { spec_.plan = Plan{3, 2, 0, true, true}; }
  struct Times {
    double seconds, run_seconds;
  };
  Times times(Txn txn, std::uint64_t ran_ns) const {
    comm::EvalCell cell{};
    ends_.tell_time(txn, ran_ns, cell);
    return {cell.seconds, cell.run_seconds};
  }
  RunSpec spec_;
  const Hooks hooks_;
  EpochEnds ends_{spec_, hooks_, nullptr};
};

// By the run's time: what another worker has told of its start is as good as one's own.
TEST_F(EpochTimes, AnEpochBeginsWithItsFirstStep) {
  EXPECT_EQ(ends_.began_ns(Txn(0), 70), 70U);
  ends_.begun(70);
  EXPECT_EQ(ends_.began_ns(Txn(1), 90), 70U);
  EXPECT_EQ(ends_.began_ns(Txn(2), 95), 70U);
  EXPECT_EQ(ends_.began_ns(Txn(5), 99), 99U) << "the next epoch's";
}

TEST_F(EpochTimes, WhoDoesNotKnowWhenItBeganTakesItsOwnFirstStep) {
  EXPECT_EQ(ends_.began_ns(Txn(2), 95), 95U);
  EXPECT_EQ(times(Txn(3), 9 * kSecond).seconds, 0);
}

TEST_F(EpochTimes, AnEndHasThoseOfItsEpochAndOfTheRun) {
  ends_.begun(7 * kSecond);
  EXPECT_EQ(times(Txn(3), 9 * kSecond).seconds, 2);
  EXPECT_EQ(times(Txn(3), 9 * kSecond).run_seconds, 9);
}

// Another host's run time may be a little ahead.
TEST_F(EpochTimes, NoTimeIsBelowZero) {
  ends_.begun(7 * kSecond);
  EXPECT_EQ(times(Txn(3), 7 * kSecond - 1).seconds, 0);
}

}  // namespace
}  // namespace lockstep::training
