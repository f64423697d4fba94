#include "train/epoch_book.h"

#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::training {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(EpochBook, TheTrainingsLossIsOfItsOwnEpochAlone) {
  EpochBook book;
  book.add_share(0, {100, 0, 1}, true);  // another epoch's
  book.add_share(0, {3, 2, 2}, true);
  book.add_share(0, {5, 1, 2}, false);
  book.end(1, {10, 6, 8}, 0.25, BestOf::kNothing);
  const EpochEnd end = book.last();
  EXPECT_EQ(end.epoch, 1);
  EXPECT_EQ(end.train_loss, 2.0);
  EXPECT_EQ(end.train_accuracy, 0.75);
  EXPECT_EQ(end.loss, 1.25);
  EXPECT_EQ(end.accuracy, 0.75);
  EXPECT_EQ(end.count, 8);
  EXPECT_EQ(end.lr, 0.25);
  EXPECT_EQ(end.best_epoch, -1);
  EXPECT_FALSE(end.is_best());
}

// It is told as any other; with the next step all is as though it had never been.
TEST(EpochBook, TheEpochThatTheTimeLimitBreaksIsForgotten) {
  EpochBook book, whole;
  for (EpochBook* each : {&book, &whole}) {
    static_cast<void>(each->keep_history());
    each->add_share(0, {4, 0, 2}, true);
    each->end(0, {8, 4, 8}, 0.25, BestOf::kLoss, 10);
    each->add_share(0, {2, 0, 2}, true);
  }
  book.end_broken(1, {4, 6, 8}, 0.25, BestOf::kLoss, 12);
  book.ended_at(13);
  const EpochEnd broken = book.last();
  EXPECT_TRUE(broken.broken);
  EXPECT_TRUE(broken.is_best());
  EXPECT_EQ(broken.train_loss, 1);
  EXPECT_EQ(broken.loss, 0.5);
  EXPECT_EQ(broken.best_before, 1);
  ASSERT_EQ(book.history().size(), 2U);
  EXPECT_EQ(book.history()[0].run_seconds, 10);
  EXPECT_EQ(book.history()[1].run_seconds, 13);
  for (EpochBook* each : {&book, &whole}) {
    each->add_share(0, {6, 0, 2}, false);
    EXPECT_EQ(each->history().size(), 1U);
    each->end(1, {24, 4, 8}, 0.25, BestOf::kLoss, 20);
  }
  for (std::size_t i = 0; i < book.state().size(); ++i)
    EXPECT_TRUE(book.state()[i].second.equal(whole.state()[i].second)) << book.state()[i].first;
  EXPECT_EQ(book.last().best_epoch, 0);
  EXPECT_EQ(book.last().train_loss, 2);
  EXPECT_FALSE(book.last().broken);
}

// No sample of it counted: all its steps were left out, or all its samples damaged.
TEST(EpochBook, ABrokenEpochOfWhichNothingCountedIsOneAllTheSame) {
  EpochBook book, undisturbed;
  for (EpochBook* each : {&book, &undisturbed}) {
    static_cast<void>(each->keep_history());
    each->add_share(0, {0, 0, 0}, true);
  }
  book.end_broken(0, {4, 6, 8}, 0.25, BestOf::kTrainLoss, 12);
  EXPECT_TRUE(book.last().broken);
  EXPECT_EQ(book.last().epoch, 0);
  EXPECT_EQ(book.last().loss, 0.5);
  EXPECT_TRUE(std::isnan(book.last().train_loss));
  EXPECT_FALSE(book.last().is_best());
  for (EpochBook* each : {&book, &undisturbed}) {
    each->add_share(0, {6, 0, 2}, false);
    EXPECT_TRUE(each->history().empty());
    each->end(0, {24, 4, 8}, 0.25, BestOf::kTrainLoss, 20);
  }
  for (std::size_t i = 0; i < book.state().size(); ++i)
    EXPECT_TRUE(at::allclose(book.state()[i].second, undisturbed.state()[i].second, 0, 0,
                             /*equal_nan=*/true))
        << book.state()[i].first;
  EXPECT_FALSE(book.last().broken);
}

// What a newcomer and a resumed run read.
TEST(EpochBook, TheHistoryIsAText) {
  EpochBook from, to;
  const TrainState::Text text = from.keep_history(), other = to.keep_history();
  EXPECT_FALSE(text.hashed);
  from.add_share(0, {1, 0, 3}, true);
  from.end(0, {kNone, 0, 7}, 0.1, BestOf::kLoss, 1.5);
  from.end_broken(1, {2, 0, 7}, 0.1, BestOf::kLoss, 2.5);
  ASSERT_TRUE(other.load(text.save()).ok());
  ASSERT_EQ(to.history().size(), 2U);
  EXPECT_EQ(to.history()[0].train_loss, 1.0 / 3);
  EXPECT_TRUE(std::isnan(to.history()[0].loss));
  EXPECT_EQ(to.history()[1].run_seconds, 2.5);
  EXPECT_FALSE(other.load("[]").ok());
  EXPECT_FALSE(other.load(R"({"ends":[[1,2]]})").ok());
}

// Equal is not better, what is no number never is.
TEST(EpochBook, TheBestIsTheFirstOfEquals) {
  EpochBook book;
  const double losses[] = {kNone, 4, 4, 3, kNone, 3.5};
  const std::int64_t best[] = {-1, 1, 1, 3, 3, 3};
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    book.add_share(0, {1, 0, 1}, true);
    book.end(epoch, {losses[epoch], 0, 1}, 0.1, BestOf::kLoss);
    EXPECT_EQ(book.last().best_epoch, best[epoch]) << epoch;
    EXPECT_EQ(book.last().is_best(), best[epoch] == epoch) << epoch;
  }
  EXPECT_EQ(book.last().best, 3);
  EXPECT_EQ(book.last().best_before, 3);
}

TEST(EpochBook, AccuracyIsBetterWhenItIsGreaterAndTrainingWhenItIsLess) {
  EpochBook accuracy, training;
  for (const double value : {2, 5, 4}) {
    accuracy.end(static_cast<std::int64_t>(value), {0, value, 10}, 0.1, BestOf::kAccuracy);
    training.add_share(0, {value, 0, 1}, true);
    training.end(static_cast<std::int64_t>(value), {0, 0, 0}, 0.1, BestOf::kTrainLoss);
  }
  EXPECT_EQ(accuracy.last().best_epoch, 5);
  EXPECT_EQ(accuracy.last().best, 0.5);
  EXPECT_EQ(training.last().best_epoch, 2);
  EXPECT_TRUE(std::isnan(training.last().loss)) << "without a test set there is none";
}

TEST(EpochBook, EachVirtualWorkerHasALossOfItsOwn) {
  EpochBook book;
  for (const bool first : {true, false, true, false})  // two epochs of two steps
    for (std::uint32_t v = 0; v < 3; ++v)
      book.add_share(v, {v + (first ? 1.0 : 3.0), kNone, 2}, first);
  EXPECT_EQ(book.train_losses(3), (std::vector<double>{1, 1.5, 2}));
  book.end(1, {0, 0, 0}, 0.1, BestOf::kNothing);
  EXPECT_EQ(book.last().train_loss, 1.5);
  EXPECT_TRUE(std::isnan(book.last().train_accuracy)) << "not counted";
}

// A death would be the first to find no room for it.
TEST(EpochBook, AHistoryThatWouldNotFitIsRefusedAtTheStart) {
  EpochBook book;
  EXPECT_TRUE(book.check_epochs(1'000'000).ok()) << "none is kept";
  TrainState state;
  ASSERT_TRUE(state.add(book.keep_history()).ok());
  EXPECT_EQ(book.check_epochs(13'001).error().kind, ErrorKind::kUsage);
  ASSERT_TRUE(book.check_epochs(13'000).ok());
  for (int epoch = 0; epoch < 13'000; ++epoch) {
    book.add_share(0, {-1.0 / 3e300, 0, 7}, true);  // as long as numbers become
    book.end(epoch, {-1.0 / 3e300, 0, 7}, 0.1, BestOf::kNothing, 123456.7890123456);
  }
  std::size_t bytes = 0;
  for (const TrainState::Text& text : state.texts()) bytes += text.save().size();
  EXPECT_GT(bytes, 800'000U);
  EXPECT_LT(bytes, 1'000'000U);
}

TEST(EpochBook, AShareMayHaveFewerSamples) {
  EpochBook book;
  book.add_share(0, {6, 0, 3}, true);
  book.add_share(1, {3, 0, 1}, true);
  EXPECT_EQ(book.train_losses(2), (std::vector<double>{2, 3}));
  book.end(0, {0, 0, 0}, 0.1, BestOf::kNothing);
  EXPECT_EQ(book.last().train_loss, 2.25);
}

TEST(EpochBook, WhatIsLeftOutIsOfTheLastEpoch) {
  EpochBook book;
  book.add_share(0, {1, 0, 1}, true, 5);  // another epoch's
  book.add_share(0, {1, 0, 1}, true, 2);
  book.add_share(1, {0, 0, 0}, true, 1);  // of a step that is skipped
  book.add_share(0, {1, 0, 1}, false, 4);
  EXPECT_EQ(book.last().train_replaced, 7) << "broken off here";
  book.end(1, {1, 1, 1, 3}, 0.1, BestOf::kNothing);
  EXPECT_EQ(book.last().train_replaced, 7);
  EXPECT_EQ(book.last().left_out, 3);
  book.end(2, {0, 0, 0}, 0.1, BestOf::kNothing);
  EXPECT_EQ(book.last().left_out, 0);
}

// The epoch before the first has it.
TEST(EpochBook, ARunMayBeginWithABest) {
  EpochBook book, unknown;
  book.begin_at({3, 0.5});
  unknown.begin_at({3});
  for (EpochBook* each : {&book, &unknown}) {
    each->add_share(0, {1, 0, 1}, true);
    each->end(3, {0, 2, 4}, 0.1, BestOf::kAccuracy);
  }
  EXPECT_EQ(book.last().best_epoch, 2);
  EXPECT_EQ(book.last().best_before, 0.5);
  EXPECT_EQ(unknown.last().best_epoch, 3);
  EXPECT_TRUE(std::isnan(unknown.last().best_before));
}

// What lines of the first epoch tell of the one before.
TEST(EpochBook, ARunThatBeginsElsewhereKnowsTheLastEpochsLossesOrSaysThatItDoesNot) {
  EpochBook known, unknown;
  known.keep_history();
  known.begin_at({2, 0.5, {{3, 4, 10}, {1.5, 2.5, 20}}});
  EXPECT_EQ(known.last_whole().train_loss, 1.5);
  EXPECT_EQ(known.last_whole().loss, 2.5);
  unknown.begin_at({2});
  EXPECT_TRUE(std::isnan(unknown.last_whole().train_loss));
  EXPECT_TRUE(std::isnan(unknown.last_whole().loss));
}

Sums sums_of(const std::string& name, double sum, std::int64_t count) {
  Sums sums;
  sums.add(name, {sum, count});
  return sums;
}

TEST(EpochBook, SumsAreOfTheEpochAlone) {
  EpochBook book;
  book.add_sums(sums_of("of the epoch before", 1, 1), true);
  book.add_share(0, {4, 0, 2}, true);
  book.add_sums(sums_of("a", 1, 2), true);
  book.add_sums({}, false);
  book.add_sums(sums_of("a", 0.5, 2), false);
  book.add_sums(sums_of("b", kNone, 1), false);
  book.end(0, {0, 0, 0}, 0.1, BestOf::kNothing);
  const Sums sums = book.last().sums;
  EXPECT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums["a"].mean(), 0.375);
  EXPECT_TRUE(std::isnan(sums["b"].sum));
  book.add_sums({}, true);
  EXPECT_TRUE(book.last().sums.empty());
}

TEST(EpochBook, SumsAreSixteenAnEpoch) {
  EpochBook book;
  for (int i = 0; i < 16; ++i)
    book.add_sums(sums_of(std::string(31, 'a').replace(0, 1, 1, char('a' + i)), i, i), i == 0);
  EXPECT_EQ(book.last().sums.size(), 16U);
  EXPECT_TRUE(book.check_sums("step 3", sums_of(std::string(31, 'a'), 1, 1), false).ok());
  const Status full = book.check_sums("step 3", sums_of("a", 1, 1), false);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message.find("step 3: shares add 17 names"), 0U) << full.error().message;
  EXPECT_TRUE(book.check_sums("step 4", sums_of("a", 1, 1), true).ok());
}

TEST(EpochBook, TheBestMayBeOfASum) {
  const auto best = [](BestMode mode) {
    EpochBook book;
    std::int64_t epoch = 0;
    std::string bests;
    for (const double mean : {kNone, 2.0, 1.0, 3.0, kNone, 3.0}) {
      book.add_share(0, {4, 0, 2}, true);
      book.add_sums(sums_of("a", 2 * mean, 2), true);
      book.end(epoch++, {0, 0, 0}, 0.1, {"a", mode});
      bests += std::to_string(book.last().best_epoch) + " ";
    }
    book.add_share(0, {4, 0, 2}, true);
    book.add_sums({}, true);  // nobody has added any
    book.end(epoch, {0, 0, 0}, 0.1, {"a", mode});
    return bests + std::to_string(book.last().best_epoch);
  };
  EXPECT_EQ(best(BestMode::kMin), "-1 1 2 2 2 2 2");
  EXPECT_EQ(best(BestMode::kMax), "-1 1 1 3 3 3 3");
}

// What a newcomer copies is all there is.
TEST(EpochBook, ItsStateIsWhole) {
  EpochBook one, other;
  one.add_share(0, {3, 0, 2}, true);
  one.end(4, {1, 2, 4}, 0.5, BestOf::kAccuracy);
  one.add_share(0, {8, 0, 2}, true);
  for (std::size_t i = 0; i < one.state().size(); ++i)
    other.state()[i].second.copy_(one.state()[i].second);
  one.add_sums(sums_of("a", 1, 2), true);
  for (std::size_t i = 0; i < one.sums_state().size(); ++i)
    other.sums_state()[i].second.copy_(one.sums_state()[i].second);
  for (EpochBook* book : {&one, &other}) {
    book->add_sums(sums_of("a", 2, 2), false);
    EXPECT_EQ(book->last().sums["a"].mean(), 0.75);
    book->add_share(0, {4, 0, 1}, false);
    book->end(5, {1, 1, 4}, 0.5, BestOf::kAccuracy);
    EXPECT_EQ(book->last().train_loss, 4.0);
    EXPECT_EQ(book->train_losses(1), std::vector<double>{4.0});
    EXPECT_EQ(book->last().best_epoch, 4);
    EXPECT_EQ(book->last().best_before, 0.5);
  }
}

}  // namespace
}  // namespace lockstep::training
