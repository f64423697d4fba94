// How long a run is, and where its checkpoints are, in whatever unit that is said.
#include "train/run_spec.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace lockstep::training {
namespace {

using ::testing::HasSubstr;

// 22 samples for two of batch 4: 11 each, so an epoch has 3 steps of 8, 8 and 6 samples.
RunSpec spec_of(RunOptions options, bool drop_last = false) {
  RunSpec spec;
  spec.options = std::move(options);
  spec.options.batch_size = 4;
  spec.options.drop_last = drop_last;
  spec.train = *data::tensor_dataset(at::zeros({22, 1}), at::zeros({22}));
  EXPECT_TRUE(make_plans(spec, {}, 2, true).ok());
  return spec;
}

std::int64_t steps_of(const char* duration, RunOptions options = {}) {
  options.max_duration = *Duration::parse(duration);
  return spec_of(options).plan.total_steps();
}

TEST(RunSpec, HowLongItIsTakesThePlaceOfEpochs) {
  EXPECT_EQ(spec_of({}).plan.total_steps(), 30);
  EXPECT_EQ(steps_of("20ep"), 60);
  EXPECT_EQ(steps_of("100ba"), 100);
  EXPECT_EQ(steps_of("1sp"), 1);
  EXPECT_EQ(steps_of("16sp"), 2);
  EXPECT_EQ(steps_of("17sp"), 3);
  EXPECT_EQ(steps_of("22sp"), 3);
  EXPECT_EQ(steps_of("23sp"), 4);
  EXPECT_EQ(steps_of("0ep"), 30);
  RunOptions limited;
  limited.max_steps = 50;
  EXPECT_EQ(steps_of("20ep", limited), 50);
  EXPECT_EQ(steps_of("100ba", limited), 50);
  EXPECT_EQ(steps_of("40ba", limited), 40);
}

TEST(RunSpec, AGlobalBatchIsSharedByTheVirtualWorkers) {
  const auto of = [](std::int64_t all, std::int64_t each, int virtual_workers) {
    RunSpec spec;
    spec.options.global_batch_size = all;
    spec.options.batch_size = each;
    spec.train = *data::tensor_dataset(at::zeros({22, 1}), at::zeros({22}));
    const Status made = make_plans(spec, {}, virtual_workers, true);
    return made.ok() ? std::to_string(spec.data_plan.batch_size) : made.error().message;
  };
  const std::int64_t not_given = RunOptions().batch_size;
  EXPECT_EQ(of(12, not_given, 3), "4");
  EXPECT_EQ(of(12, not_given, 2), "6");
  EXPECT_EQ(of(12, 6, 2), "6");
  EXPECT_THAT(of(12, not_given, 5), HasSubstr("5 virtual workers, which do not divide it"));
  EXPECT_THAT(of(12, 4, 2), HasSubstr("each with 6; but batch_size is 4: give one of the two"));
}

// What is said of an optimizer over `updated`, where the state has `own`; empty: nothing.
std::string said_of(const at::Tensor& own, const at::Tensor& updated) {
  SGD optimizer({updated}, {.lr = 0.1});
  TrainState state;
  EXPECT_TRUE(state.add("own", {{"w", own}}).ok());
  EXPECT_TRUE(state.add("optimizer", optimizer).ok());
  const Status status = check_options(spec_of({}), {}, state);
  return status.ok() ? "" : status.error().message;
}

TEST(RunSpec, AnOptimizerHasTensorsOfTheStateThemselves) {
  const at::Tensor w = at::ones({4}).set_requires_grad(true);
  EXPECT_EQ(said_of(w, w), "");
  EXPECT_THAT(said_of(w, at::ones({4}).set_requires_grad(true)),
              HasSubstr("a tensor that is not in the train state"));
  EXPECT_THAT(said_of(w, w.detach().set_requires_grad(true)),
              HasSubstr("another tensor over the memory of 'own.w'"));
  EXPECT_THAT(said_of(w, w.detach().slice(0, 0, 2).set_requires_grad(true)),
              HasSubstr("another tensor over the memory of 'own.w'"));
  const at::Tensor product = w.mul(2);
  EXPECT_THAT(said_of(product, product), HasSubstr("can't optimize a non-leaf Tensor"));
}

TEST(RunSpec, AnOptionThatAnotherLeavesWithoutEffectIsRefused) {
  const at::Tensor w = at::ones({4}).set_requires_grad(true);
  SGD optimizer({w}, {.lr = 0.1});
  TrainState state;
  ASSERT_TRUE(state.add("own", {{"w", w}}).ok());
  ASSERT_TRUE(state.add("optimizer", optimizer).ok());
  const auto said = [&](const char* resume) {
    RunOptions options;
    options.new_virtual_workers = true;
    options.resume = resume;
    const Status status = check_options(spec_of(options), {}, state);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(said("auto"), "");
  EXPECT_THAT(said("never"), HasSubstr("leave one of the two out"));
}

TEST(RunSpec, WithoutDataNothingIsSaidOfBatchesOrEpochs) {
  at::Tensor w = at::ones({4}).set_requires_grad(true);
  SGD optimizer({w}, {.lr = 0.1});
  TrainState state;
  ASSERT_TRUE(state.add("own", {{"w", w}}).ok());
  ASSERT_TRUE(state.add("optimizer", optimizer).ok());
  const auto said = [&](const std::function<void(RunOptions&)>& set) {
    RunSpec spec;
    set(spec.options);
    const Status status = check_options(spec, {}, state);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(said([](RunOptions& o) { o.max_steps = 5; }), "");
  EXPECT_EQ(said([](RunOptions& o) { o.checkpoint_every = *Duration::parse("10m"); }), "");
  const auto refused = [&](const char* name, const std::function<void(RunOptions&)>& set) {
    EXPECT_THAT(said(set), HasSubstr(std::string(name) + " is "));
    EXPECT_THAT(said(set), HasSubstr("this program has no data set"));
  };
  refused("--batch-size", [](RunOptions& o) { o.batch_size = 5; });
  refused("global_batch_size", [](RunOptions& o) { o.global_batch_size = 5; });
  refused("evaluation_batch_size", [](RunOptions& o) { o.evaluation_batch_size = 5; });
  refused("--shuffle", [](RunOptions& o) { o.shuffle = data::Shuffle::kRows; });
  refused("--drop-last", [](RunOptions& o) { o.drop_last = true; });
  refused("prefetch_threads", [](RunOptions& o) { o.prefetch_threads = 2; });
  refused("--epochs", [](RunOptions& o) { o.epochs = 2; });
  refused("--new-virtual-workers", [](RunOptions& o) { o.new_virtual_workers = true; });
  refused("--max-duration", [](RunOptions& o) { o.max_duration = Duration::epochs(2); });
  refused("--checkpoint-every", [](RunOptions& o) { o.checkpoint_every = Duration::epochs(2); });
  refused("--log-every", [](RunOptions& o) { o.log_every = Duration::epochs(2); });
  // With their default values too, where the command line has them.
  for (const char* name :
       {"--batch-size", "--shuffle", "--drop-last", "--epochs", "--new-virtual-workers"})
    refused(name, [&](RunOptions& o) { o.given = {"--max-steps", name}; });
  const char* const nothing = "but this program evaluates nothing";
  EXPECT_THAT(said([](RunOptions& o) { o.evaluate_every = Duration::epochs(2); }),
              HasSubstr(nothing));
  EXPECT_THAT(said([](RunOptions& o) { o.given = {"--evaluate-every"}; }), HasSubstr(nothing));
  EXPECT_EQ(said([](RunOptions& o) { o.given = {"--max-steps", "--virtual-workers"}; }), "");
}

TEST(RunSpec, WithoutDataThereIsOneEpochThatHasNoEnd) {
  const auto plan_of = [](const char* duration, std::int64_t max_steps) {
    RunSpec spec;
    spec.options.max_steps = max_steps;
    spec.options.max_duration = *Duration::parse(duration);
    spec.options.updates_per_step = 10'000;
    EXPECT_TRUE(make_plans(spec, {}, 1024, true).ok());
    EXPECT_EQ(spec.samples_per_share(), 1);
    return spec.plan;
  };
  EXPECT_GT(plan_of("0ep", 0).total_steps(), std::int64_t{1} << 40);
  EXPECT_GT(plan_of("2h", 0).total_steps(), std::int64_t{1} << 40);
  EXPECT_FALSE(plan_of("2h", 0).knows_its_end());
  EXPECT_EQ(plan_of("0ep", 50).total_steps(), 50);
  EXPECT_TRUE(plan_of("0ep", 50).knows_its_end());
  EXPECT_EQ(plan_of("50ba", 0).total_steps(), 50);
  EXPECT_EQ(plan_of("1025sp", 0).total_steps(), 2);
  EXPECT_EQ(plan_of("2h", 0).at(Txn(std::uint64_t{1} << 50)).epoch, 0);
}

// What check_options() says of a run on some data; empty: nothing.
std::string said_of_run(const std::function<void(RunOptions&)>& set) {
  at::Tensor w = at::ones({4}).set_requires_grad(true);
  SGD optimizer({w}, {.lr = 0.1});
  TrainState state;
  EXPECT_TRUE(state.add("own", {{"w", w}}).ok());
  EXPECT_TRUE(state.add("optimizer", optimizer).ok());
  RunSpec spec = spec_of({});
  set(spec.options);
  const Status status = check_options(spec, {}, state);
  return status.ok() ? "" : status.error().message;
}

TEST(RunSpec, EpochsThatADurationLeavesWithoutEffectAreRefused) {
  using Given = std::vector<std::string>;
  const auto said = [](const char* duration, const Given& given) {
    return said_of_run([&](RunOptions& o) {
      o.epochs = 5;  // a program's own, if it is not given
      o.max_duration = *Duration::parse(duration);
      o.given = given;
    });
  };
  for (const char* duration : {"7200s", "10ep", "500ba", "1000sp"}) {
    EXPECT_EQ(said(duration, {"--max-duration"}), "") << duration;
    EXPECT_EQ(said(duration, {"--max-duration", "--epochs"}),
              "--epochs is 5, but --max-duration is " + std::string(duration) +
                  ", which says in its place how long the run is: give one of the two");
    EXPECT_THAT(said(duration, {"--epochs"}), HasSubstr("the program sets --max-duration"));
  }
  EXPECT_EQ(said("0ep", {"--max-duration", "--epochs"}), "");
}

TEST(RunSpec, EpochsAreCountedAsFarAsTheRunGoes) {
  RunOptions options;
  options.epochs = 1000;
  EXPECT_EQ(spec_of(options).plan.planned_epochs(), 1000);
  options.max_steps = 7;
  EXPECT_EQ(spec_of(options).plan.planned_epochs(), 3);
  options.max_steps = 0;
  options.max_duration = Duration::epochs(20);
  EXPECT_EQ(spec_of(options).plan.planned_epochs(), 20);
}

TEST(RunSpec, TimeIsALimitOfSeconds) {
  RunOptions options;
  options.max_duration = *Duration::parse("2h");
  EXPECT_EQ(spec_of(options).max_seconds, 7200);
  EXPECT_GT(spec_of(options).plan.epochs, 1000);
  options.max_seconds = 60;
  EXPECT_EQ(spec_of(options).max_seconds, 60);
}

std::string checkpoints(const char* every, bool drop_last = false) {
  RunOptions options;
  options.checkpoint_every = *Duration::parse(every);
  const RunSpec spec = spec_of(options, drop_last);
  std::string text;
  for (std::int64_t step = 0; step < 9; ++step) {
    const std::int64_t each = spec.plan.steps_per_epoch;
    const Position at{step / each, step % each, Kind::kStep, step};
    text += spec.checkpoint_due(at) ? 'x' : '.';
  }
  return text;
}

TEST(RunSpec, CheckpointsAreDueBeforeTheStepBehindTheOneThatReachesThem) {
  EXPECT_EQ(checkpoints("2ba"), "..x.x.x.x");
  EXPECT_EQ(checkpoints("1ep"), "...x..x..");
  EXPECT_EQ(checkpoints("2ep"), "......x..");
  EXPECT_EQ(checkpoints("22sp"), "...x..x..");
  EXPECT_EQ(checkpoints("16sp"), "..x..x.x.");
  EXPECT_EQ(checkpoints("1sp"), ".xxxxxxxx");
  EXPECT_EQ(checkpoints("16sp", true), "..x.x.x.x") << "two steps of 8 an epoch";
  EXPECT_EQ(checkpoints("0ba"), ".........");
  EXPECT_EQ(checkpoints("5m"), ".........") << "by each worker's clock";
}

// The ends of intervals as x, their first steps as ( or, where a step is both, as |.
std::string printed(const char* every) {
  RunOptions options;
  options.log_every = *Duration::parse(every);
  const RunSpec spec = spec_of(options);
  std::string text;
  for (std::int64_t step = 0; step < 9; ++step) {
    const std::int64_t each = spec.plan.steps_per_epoch;
    const Position at{step / each, step % each, Kind::kStep, step};
    const bool ends = spec.line_due(at), begins = spec.line_begins(at);
    text += begins && ends ? '|' : begins ? '(' : ends ? 'x' : '.';
  }
  return text;
}

TEST(RunSpec, LinesAreDueAtTheStepThatReachesThem) {
  EXPECT_EQ(printed("1ba"), "|||||||||");
  EXPECT_EQ(printed("2ba"), "(x((x((x(") << "steps count from each epoch's start";
  EXPECT_EQ(printed("100ba"), "(.x(.x(.x");
  EXPECT_EQ(printed("1ep"), "(.x(.x(.x");
  EXPECT_EQ(printed("2ep"), "(....x(..");
  EXPECT_EQ(printed("1sp"), "|||||||||");
  EXPECT_EQ(printed("16sp"), "(x(.x(x(x") << "samples count from the run's start";
  EXPECT_EQ(printed("0ba"), ".........");
}

}  // namespace
}  // namespace lockstep::training
