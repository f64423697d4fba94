#include "train/lines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace lockstep::training {
namespace {

const Plan kPlan{.steps_per_epoch = 600, .epochs = 10, .max_steps = 50, .ends_epochs = true};

TEST(Lines, OfABrokenEpochSayThatItIsNotEvaluated) {
  const Position last = kPlan.at(Txn(49));
  EXPECT_EQ(cut_line(last, kPlan, /*evaluates=*/true),
            "The run ends here, at step 50 of 600 of epoch 1 (--max-steps); the epoch is not "
            "evaluated\n");
  EXPECT_EQ(cut_line(last, kPlan, /*evaluates=*/false),
            "The run ends here, at step 50 of 600 of epoch 1 (--max-steps)\n");
  Plan plan = kPlan;
  plan.ends_epochs = false;
  plan.end_after(600);
  EXPECT_EQ(cut_line(plan.at(Txn(599)), plan, /*evaluates=*/true),
            "The run ends here, at step 600 of 600 of epoch 1 (by the program)\n");
}

TEST(Lines, OfAnEvaluationInTheEpochNameItsStep) {
  const Position behind{.epoch = 1, .step = 300, .kind = Kind::kEvaluation, .global_step = 900};
  EXPECT_EQ(evaluation_line(behind, kPlan, {5, 30, 40}, EvaluatedOn::kTestSet),
            "Epoch [2/10], Step [300/600], Test loss: 0.1250, Accuracy: 75.00 % (30/40)\n");
  Score uncounted;
  uncounted.loss_sum = 5;
  uncounted.count = 40;
  EXPECT_EQ(evaluation_line(behind, kPlan, uncounted, EvaluatedOn::kValidationSet),
            "Epoch [2/10], Step [300/600], Validation loss: 0.1250\n");
  EXPECT_EQ(evaluation_metrics(Txn(901), behind, {5, 30, 40}, EvaluatedOn::kTestSet),
            R"({"txn":901,"step":900,"epoch":1,"epoch_step":300,"test_loss":0.125,)"
            R"("test_accuracy":0.75,"test_correct":30,"test_samples":40})"
            "\n");
}

TEST(Lines, ANaNHasNoSignAsInPython) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(with_decimals(nan, 4), "nan");
  EXPECT_EQ(with_decimals(-nan, 4), "nan");
  EXPECT_EQ(with_decimals(-std::numeric_limits<double>::infinity(), 4), "-inf");
}

TEST(Lines, OfALossThatIsNoNumberNameItsPlace) {
  EXPECT_EQ(not_finite_line(kPlan.at(Txn(5)), kPlan, "the loss of virtual worker 2 is -inf", false),
            "Warning: Epoch [1/10], Step [6/600]: the loss of virtual worker 2 is -inf; training "
            "goes on\n");
  EXPECT_EQ(not_finite_line(kPlan.at(Txn(5)), kPlan, "the gradient of 'w' is not finite", true),
            "Warning: Epoch [1/10], Step [6/600]: the gradient of 'w' is not finite; the update is "
            "left out (--on-nan skip)\n");
}

TEST(Lines, OfAStepHaveItsRates) {
  const auto rates = [](const std::vector<double>& values) {
    const std::string line = step_metrics(Txn(0), {}, {.rates = values});
    return line.substr(line.find("\"lr\""));
  };
  EXPECT_EQ(rates({0.5}), "\"lr\":0.5}\n");
  EXPECT_EQ(rates({0.5, 0.25}), "\"lr\":[0.5,0.25]}\n");
  // A transaction's lines have a limit.
  EXPECT_LT(rates(std::vector<double>(500, 1.0 / 3)).size(), 400U);
}

TEST(Lines, TheStateIsWordsOfItsHash) {
  EXPECT_EQ(step_metrics(Txn(0), {}, {.rates = {1}}).find("state"), std::string::npos);
  EXPECT_NE(step_metrics(Txn(0), {}, {.rates = {1}, .state = 0xfedcba9876543210u})
                .find(",\"state_xxh3\":\"fedcba9876543210\"}\n"),
            std::string::npos);
  EXPECT_TRUE(is_metrics_key("state_xxh3"));
  EXPECT_NE(step_metrics(Txn(0), {}, {.rates = {1}, .ends = true}).find(",\"ends\":true}\n"),
            std::string::npos);
  EXPECT_TRUE(is_metrics_key("ends"));
  EXPECT_FALSE(is_metrics_key("state"));
}

TEST(Lines, WhatIsLeftOutIsCounted) {
  EXPECT_EQ(step_metrics(Txn(0), {}, {.rates = {1}}).find("replaced"), std::string::npos);
  EXPECT_NE(step_metrics(Txn(0), {}, {.rates = {1}, .replaced = 2}).find(",\"replaced\":2}\n"),
            std::string::npos);
  Score score{5, 30, 40};
  score.left_out = 3;
  EXPECT_NE(evaluation_metrics(Txn(1), {}, score, EvaluatedOn::kTestSet)
                .find("\"test_samples\":40,\"test_left_out\":3}"),
            std::string::npos);
  EpochEnd end;
  EXPECT_EQ(epoch_metrics(Txn(1), {}, end, EvaluatedOn::kTestSet).find("left_out"),
            std::string::npos);
  EXPECT_EQ(left_out_text(end), "");
  end.train_replaced = 2;
  end.left_out = 1;
  EXPECT_NE(epoch_metrics(Txn(1), {}, end, EvaluatedOn::kValidationSet)
                .find(",\"train_replaced\":2,\"valid_left_out\":1}"),
            std::string::npos);
  EXPECT_EQ(left_out_text(end),
            "left out as damaged in the last epoch: 2 samples in training, where the next ones "
            "stood in; 1 sample in the evaluation (ledger.jsonl has \"replaced\" of each step)");
  end.left_out = 0;  // or nothing was evaluated
  EXPECT_EQ(left_out_text(end),
            "left out as damaged in the last epoch: 2 samples in training, where the next ones "
            "stood in (ledger.jsonl has \"replaced\" of each step)");
  end.train_replaced = 0;
  end.left_out = 2;
  EXPECT_EQ(left_out_text(end),
            "left out as damaged in the last epoch: 2 samples in the evaluation");
}

TEST(Lines, WhatNobodyAskedForIsNotNamed) {
  Plan plan = kPlan;
  plan.by_duration = true;
  EXPECT_EQ(cut_line(plan.at(Txn(49)), plan, /*evaluates=*/false),
            "The run ends here, at step 50 of 600 of epoch 1 (--max-duration)\n");
  plan.epochs = Plan::kEpochsInTime;
  EXPECT_EQ(step_line(plan.at(Txn(49)), plan, {2.0}), "Epoch [1], Step [50/600], Loss: 2.0000\n");
  EXPECT_EQ(step_line(plan.at(Txn(49)), plan, {std::nullopt, std::nan("")}),
            "Epoch [1], Step [50/600], Loss: none, nan\n");
  EXPECT_EQ(step_line(plan.at(Txn(49)), plan, {std::nullopt, std::nullopt}),
            "Epoch [1], Step [50/600], no share took part\n");
}

TEST(Lines, OfAProgramsOwnTextTheLastIsWholeToo) {
  EXPECT_EQ(whole_lines("a\nb"), "a\nb\n");
  EXPECT_EQ(whole_lines("a\n"), "a\n");
  EXPECT_EQ(whole_lines(""), "");
}

}  // namespace
}  // namespace lockstep::training
