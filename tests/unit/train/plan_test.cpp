#include "train/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace lockstep::training {
namespace {

// Every step of every epoch once, in order; behind them its end and its files, if asked for.
TEST(Plan, TransactionsGoThroughTheRunOnce) {
  for (const std::int64_t steps : {1, 2, 7})
    for (const std::int64_t epochs : {1, 3})
      for (const int behind : {0, 1, 2}) {
        const Plan plan{steps, epochs, 0, behind > 0, behind > 1};
        std::uint64_t txn = 0;
        for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
          for (std::int64_t step = 0; step < steps; ++step, ++txn) {
            const Position at = plan.at(Txn(txn));
            EXPECT_EQ(at.kind, Kind::kStep);
            EXPECT_EQ(at.epoch, epoch);
            EXPECT_EQ(at.step, step);
            EXPECT_EQ(at.global_step, epoch * steps + step);
          }
          for (int i = 0; i < behind; ++i) {
            const Position at = plan.at(Txn(txn++));
            EXPECT_EQ(at.kind, i == 0 ? Kind::kEpochEnd : Kind::kExport);
            EXPECT_EQ(at.epoch, epoch);
            EXPECT_EQ(at.step, steps);
            EXPECT_EQ(at.global_step, (epoch + 1) * steps);
          }
        }
        EXPECT_EQ(plan.end(), Txn(txn));
      }
}

// Each step is so many transactions; all else counts steps.
TEST(Plan, UpdatesOfAStepComeOneAfterTheOther) {
  for (const std::int64_t updates : {1, 2, 5})
    for (const std::int64_t every : {0, 1, 3})
      for (const int behind : {0, 1, 2}) {
        Plan plan{7, 2, 0, behind > 0, behind > 1};
        plan.updates_per_step = updates;
        plan.evaluation_every = every;
        std::uint64_t txn = 0;
        for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
          EXPECT_EQ(plan.epoch_start(epoch), Txn(txn));
          for (std::int64_t step = 0; step < 7; ++step) {
            if (plan.evaluates_before(step)) {
              const Position at = plan.at(Txn(txn++));
              EXPECT_EQ(at.kind, Kind::kEvaluation);
              EXPECT_EQ(at.step, step);
              EXPECT_EQ(at.update, 0);
            }
            for (std::int64_t update = 0; update < updates; ++update) {
              const Position at = plan.at(Txn(txn++));
              EXPECT_EQ(at.kind, Kind::kStep);
              EXPECT_EQ(at.step, step);
              EXPECT_EQ(at.update, update);
              EXPECT_EQ(at.global_step, 7 * epoch + step);
              EXPECT_EQ(plan.completes_step(at), update + 1 == updates);
            }
          }
          for (int i = 0; i < behind; ++i) EXPECT_TRUE(ends_epoch(plan.at(Txn(txn++)).kind));
        }
        EXPECT_EQ(plan.end(), Txn(txn));
        // It ends, and goes on, at a step's start.
        for (std::int64_t last = 1; last < 14; ++last) {
          Plan shorter = plan;
          shorter.max_steps = last;
          const Position end = plan.at(shorter.end());
          EXPECT_EQ(end.update, 0);
          EXPECT_EQ(end.global_step, last);
          EXPECT_EQ(shorter.total_steps(), last);
        }
        EXPECT_EQ(plan.steps_if_last(Txn(0)), 1);
      }
}

// As a run does that goes on with another V: its steps' numbers follow from the epoch alone.
TEST(Plan, TransactionsAreNumberedOn) {
  for (const std::int64_t first : {-9, 4}) {
    Plan plan{7, 5, 0, true, false};
    Plan later = plan;
    later.first_txn = first;
    for (const std::int64_t stop : {0, 24}) {  // in epoch 3
      plan.stop_after = later.stop_after = stop;
      const auto shifted = [&](Txn txn) {
        return Txn(txn.value() + static_cast<std::uint64_t>(first));
      };
      EXPECT_EQ(later.epoch_start(2), shifted(plan.epoch_start(2)));
      EXPECT_EQ(later.end(), shifted(plan.end()));
      EXPECT_EQ(later.place_of_end(), shifted(plan.place_of_end()));
      for (Txn txn = plan.epoch_start(2); txn < plan.end(); txn = Txn(txn.value() + 1)) {
        const Position a = plan.at(txn), b = later.at(shifted(txn));
        EXPECT_EQ(std::tuple(a.epoch, a.step, a.kind, a.global_step),
                  std::tuple(b.epoch, b.step, b.kind, b.global_step));
        EXPECT_EQ(plan.steps_if_last(txn), later.steps_if_last(shifted(txn)));
      }
    }
  }
}

// Behind every so many steps of an epoch, but not at its end, which has its own.
TEST(Plan, EvaluationsAreBetweenSteps) {
  for (const std::int64_t every : {1, 2, 3, 4, 6, 7, 9})
    for (const bool ends : {false, true}) {
      Plan plan{7, 2, 0, ends, false};
      plan.evaluation_every = every;
      std::uint64_t txn = 0;
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_EQ(plan.epoch_start(epoch), Txn(txn));
        for (std::int64_t step = 0; step < 7; ++step) {
          EXPECT_EQ(plan.evaluates_before(step), step > 0 && step % every == 0);
          if (plan.evaluates_before(step)) {
            const Position at = plan.at(Txn(txn++));
            EXPECT_EQ(at.kind, Kind::kEvaluation) << every << " " << step;
            EXPECT_EQ(at.step, step);
            EXPECT_EQ(at.global_step, 7 * epoch + step);
          }
          const Position at = plan.at(Txn(txn++));
          EXPECT_EQ(at.kind, Kind::kStep) << every << " " << step;
          EXPECT_EQ(at.step, step);
          EXPECT_EQ(at.global_step, 7 * epoch + step);
        }
        EXPECT_FALSE(plan.evaluates_before(7));
        if (ends) {
          EXPECT_EQ(plan.at(Txn(txn++)).kind, Kind::kEpochEnd);
        }
      }
      EXPECT_EQ(plan.end(), Txn(txn));
    }
}

TEST(Plan, ARunThatEndsBehindAnEvaluatedStepHasItsEvaluation) {
  Plan plan{10, 3, 14, true, false};
  plan.evaluation_every = 4;  // epoch 1: 10 steps, two evaluations, its end; then 4 steps and one
  EXPECT_EQ(plan.end(), Txn(18));
  EXPECT_EQ(plan.at(Txn(17)).kind, Kind::kEvaluation);
  plan.max_steps = 0;
  plan.stop_after = 14;  // where the time limit breaks the epoch, its end comes behind that
  EXPECT_EQ(plan.place_of_end(), Txn(18));
  EXPECT_EQ(plan.at(Txn(18)).kind, Kind::kEpochEnd);
  EXPECT_EQ(plan.end(), Txn(19));
}

TEST(Plan, AnEvaluationThatIsTheLastToBeginGoesWithTheStepBehindIt) {
  Plan plan{10, 3, 0, true, true};
  plan.evaluation_every = 4;  // 4 steps, 4: an evaluation, 5: the fifth step
  EXPECT_EQ(plan.steps_if_last(Txn(3)), 4);
  EXPECT_EQ(plan.steps_if_last(Txn(4)), 5);
  EXPECT_EQ(plan.steps_if_last(Txn(5)), 5);
  EXPECT_EQ(plan.steps_if_last(Txn(12)), 10) << "the end of the first epoch";
  EXPECT_EQ(plan.steps_if_last(plan.end()), 0);
  EXPECT_EQ(plan.txns_between_steps(), 3);
}

TEST(Plan, MaxStepsCutsTheRunAndABrokenEpochHasNoEnd) {
  const Plan plan{10, 3, 14, true, false};
  EXPECT_EQ(plan.total_steps(), 14);
  EXPECT_EQ(plan.end(), Txn(15));  // 10 steps, the end of epoch 1, 4 steps
  EXPECT_EQ((Plan{10, 3, 20, true, false}).end(), Txn(22));
  EXPECT_EQ((Plan{10, 3, 99, true, true}).end(), Txn(36));
}

// Behind the last step, in the numbers of the steps that a longer limit goes on with.
TEST(Plan, TheEpochThatTheTimeLimitBreaksHasAnEnd) {
  Plan plan{10, 3, 0, true, true};
  EXPECT_FALSE(plan.stops());
  plan.stop_after = 14;  // 10 steps, the end of epoch 1 and its files, 4 steps
  EXPECT_TRUE(plan.stops());
  EXPECT_TRUE(plan.breaks_epoch());
  EXPECT_EQ(plan.total_steps(), 14);
  EXPECT_EQ(plan.planned_steps(), 30);  // a schedule is the same, stopped or not
  EXPECT_EQ(plan.place_of_end(), Txn(16));
  EXPECT_EQ(plan.end(), Txn(18));
  EXPECT_EQ(plan.at(Txn(15)).kind, Kind::kStep);
  for (const auto& [txn, kind] : {std::pair(16, Kind::kEpochEnd), std::pair(17, Kind::kExport)}) {
    const Position at = plan.at(Txn(static_cast<std::uint64_t>(txn)));
    EXPECT_EQ(at.kind, kind);
    EXPECT_EQ(at.epoch, 1);
    EXPECT_EQ(at.step, 4);
    EXPECT_EQ(at.global_step, 14);
  }
  // A whole one has its own; and so has one that ends the run by itself, or earlier.
  EXPECT_EQ((Plan{10, 3, 0, true, true, false, 20}).end(), Txn(24));
  EXPECT_FALSE((Plan{10, 3, 0, true, true, false, 20}).breaks_epoch());
  EXPECT_FALSE((Plan{10, 3, 13, true, true, false, 14}).stops());
  EXPECT_EQ((Plan{10, 3, 13, true, true, false, 14}).end(), Txn(15));
  EXPECT_EQ((Plan{10, 3, 0, false, false, false, 14}).end(), Txn(14));
}

TEST(Plan, ABatchOfTheDataPlanIsInOneStep) {
  Plan plan{3, 2};
  plan.batches_per_epoch = 7;
  plan.batches_per_step = 3;
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < plan.steps_per_epoch; ++step) {
    EXPECT_EQ(plan.first_batch(step), next);
    next += plan.batches_of(step);
  }
  EXPECT_EQ(next, plan.batches_per_epoch);
  EXPECT_EQ(plan.batches_of(2), 1);
}

TEST(ShareSeed, IsAnotherForEachMicroBatchAndTheSharesForTheFirst) {
  std::set<std::uint64_t> seen;
  for (int v = 0; v < 8; ++v) {
    EXPECT_EQ(micro_batch_seed(5, 7, VirtualWorker(v), 0), share_seed(5, 7, VirtualWorker(v)));
    for (std::int64_t k = 0; k < 16; ++k) seen.insert(micro_batch_seed(5, 7, VirtualWorker(v), k));
  }
  EXPECT_EQ(seen.size(), 8U * 16);
}

TEST(ShareSeed, IsAnotherForEachShareAndAFunctionOfItsPlaceAlone) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::int64_t step = 0; step < 50; ++step)
      for (int v = 0; v < 8; ++v) seen.insert(share_seed(seed, step, VirtualWorker(v)));
  EXPECT_EQ(seen.size(), 4U * 50 * 8);
  // splitmix64 of 0, as its authors' reference program gives it.
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafU);
}

TEST(Plan, RecordsHaveTheStateInSomeSteps) {
  std::string noted;
  for (Position at; at.global_step < 150; ++at.global_step)
    if (at.notes_state()) noted += std::to_string(at.global_step) + " ";
  EXPECT_EQ(noted, "0 1 2 4 8 16 32 64 96 128 ");
  EXPECT_FALSE((Position{.update = 1}).notes_state());
}

}  // namespace
}  // namespace lockstep::training
