#include "train/run_spec.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "base/errors.h"
#include "base/text.h"
#include "train/given_optimizers.h"
#include "train/option_rules.h"
#include "train/without_data.h"

namespace lockstep::training {
namespace {

constexpr std::int64_t kMostTxns = std::int64_t{1} << 61;
constexpr std::int64_t kMostUpdates = 10'000;

template <class T, class Field>
Status obey(const NumberRule<T, Field>& rule, const RunOptions& options) {
  const std::optional<T> given = options.*rule.field;
  if (!given) return {};
  const T value = *given;
  const auto& [least, most] = rule.limits;
  if (value >= least && value <= most) return {};
  return Error{ErrorKind::kUsage,
               std::string(rule.name) + " is " + shortest(value) + "; " +
                   (value < least ? "at least " + shortest(least) : "at most " + shortest(most))};
}

// Rounded up.
std::int64_t quotient(std::int64_t number, std::int64_t by) {
  return number / by + (number % by != 0 ? 1 : 0);
}

// The step that reaches so many samples is the last.
std::int64_t steps_for(const RunSpec& spec, std::int64_t samples) {
  const std::int64_t workers = spec.data_plan.virtual_workers;
  const std::int64_t per_epoch = spec.samples_per_epoch();
  const std::int64_t whole = samples / per_epoch, rest = samples % per_epoch;
  return whole * spec.plan.steps_per_epoch + quotient(rest, spec.samples_per_share() * workers);
}

void limit_by_duration(RunSpec& spec) {
  const Duration& duration = spec.options.max_duration;
  if (duration.none()) return;
  Plan& plan = spec.plan;
  if (duration.unit == Duration::Unit::kEpochs) {
    plan.epochs = duration.count;
    return;
  }
  if (duration.unit == Duration::Unit::kTime) {
    if (spec.has_data()) plan.epochs = Plan::kEpochsInTime;
    const double other = spec.max_seconds;
    spec.max_seconds = other > 0 ? std::min(other, duration.seconds) : duration.seconds;
    return;
  }
  const bool steps = duration.unit == Duration::Unit::kSteps;
  const std::int64_t last = steps ? duration.count : steps_for(spec, duration.count);
  plan.epochs = quotient(last, plan.steps_per_epoch);
  plan.by_duration = plan.max_steps == 0 || last <= plan.max_steps;
  if (plan.by_duration) plan.max_steps = last;
}

Position step_before(const Plan& plan, const Position& at) {
  Position before = at;
  --before.global_step;
  if (--before.step >= 0) return before;
  --before.epoch;
  before.step = plan.steps_per_epoch - 1;
  return before;
}

// So many samples are as many steps as they need: each epoch has its evaluations at the same ones.
void place_evaluations(RunSpec& spec) {
  const Duration& every = spec.options.evaluate_every;
  if (every.unit == Duration::Unit::kEpochs) {
    spec.plan.evaluated_epochs = every.count;
    return;
  }
  const std::int64_t unit = every.unit == Duration::Unit::kSteps
                                ? 1
                                : spec.samples_per_share() * spec.data_plan.virtual_workers;
  spec.plan.evaluation_every = std::min(quotient(every.count, unit), spec.plan.steps_per_epoch);
}

bool has_evaluation(const RunSpec& spec, const Hooks& hooks) {
  return spec.test != nullptr && hooks.evaluation != nullptr;
}

bool has(const std::vector<TrainState::Named>& tensors, const at::Tensor& wanted) {
  return std::ranges::any_of(tensors, [&](const auto& t) { return t.tensor.is_same(wanted); });
}

// The name of one that has the same memory; empty: none.
std::string alias_of(const std::vector<TrainState::Named>& tensors, const at::Tensor& wanted) {
  for (const TrainState::Named& t : tensors)
    if (wanted.has_storage() && t.tensor.has_storage() && t.tensor.is_alias_of(wanted))
      return t.name;
  return "";
}

Status not_in_state(const TrainState& state, const at::Tensor& parameter) {
  if (has(state.leaves(), parameter))
    return misuse(
        "the optimizer has the model's half weights, which follow from their masters: "
        "make it of MasterWeights::parameters()");
  for (const auto* tensors : {&state.parameters(), &state.other_tensors()})
    if (const std::string name = alias_of(*tensors, parameter); !name.empty())
      return misuse("the optimizer updates another tensor over the memory of '" + name +
                    "' (a view, detach() or data()), and backward gives its gradients to '" + name +
                    "': make the optimizer of that tensor itself");
  return misuse(
      "the optimizer updates a tensor that is not in the train state, so that a newcomer could "
      "not copy it: add its module (MasterWeights: Trainer::master_weights()), or the tensor");
}

// What an optimizer updates and the state does not have, a newcomer could not copy; and of what is
// no tensor of it gradients would not be summed.
Status check_parameters(const TrainState& state) {
  for (const Optimizer* optimizer : state.optimizers())
    for (const at::Tensor& p : optimizer->parameters()) {
      if (!has(state.parameters(), p) && !has(state.other_tensors(), p))
        return not_in_state(state, p);
      if (!p.is_leaf())
        return misuse("can't optimize a non-leaf Tensor: make it with detach().requires_grad_()");
    }
  for (const TrainState::Named& own : state.own_parameters())
    if (std::ranges::count(state.model(), own.name, &TrainState::Named::name) > 1)
      return misuse("the train state has two tensors named '" + own.name +
                    "'; give one's module or tensors another name");
  return {};
}

Status check_updates(const RunOptions& options, const TrainState& state) {
  if (options.updates_per_step < 1 || options.updates_per_step > kMostUpdates)
    return Error{ErrorKind::kUsage, "updates_per_step is " +
                                        std::to_string(options.updates_per_step) + "; from 1 to " +
                                        std::to_string(kMostUpdates)};
  if (state.optimizers().size() <= kMostOptimizers) return {};
  return Error{ErrorKind::kUsage, "the train state has " +
                                      std::to_string(state.optimizers().size()) +
                                      " optimizers; at most " + std::to_string(kMostOptimizers)};
}

// One that is not in the state would begin anew after a resume.
Status check_schedulers(const TrainState& state) {
  for (const Optimizer* optimizer : state.optimizers())
    for (const LRScheduler* scheduler : optimizer->schedulers())
      if (std::ranges::count(state.schedulers(), scheduler) == 0)
        return Error{ErrorKind::kUsage,
                     "an optimizer of the run has a scheduler (" + scheduler->settings() +
                         ") that is not in the train state: after a resume it would begin anew. "
                         "Give it to Trainer::schedule(), or to TrainState::add()"};
  return {};
}

data::DataPlan data_plan_of(const RunSpec& spec, int virtual_workers) {
  const RunOptions& options = spec.options;
  data::DataPlan plan;
  plan.dataset_size = spec.train->size();
  plan.virtual_workers = virtual_workers;
  plan.batch_size = options.batch_size;
  plan.seed = options.seed;
  plan.shuffle = options.shuffle;
  plan.drop_last_batch = options.drop_last;
  if (options.shuffle == data::Shuffle::kLegacy || options.shuffle == data::Shuffle::kDataLoader)
    plan.generator_state = data::default_generator_state();
  return plan;
}

// A program's own number of epochs may be its default; one that is asked for is to have an effect.
Status check_one_length(const RunOptions& options) {
  if (options.max_duration.none() || !given(options, "--epochs")) return {};
  const std::string most = options.max_duration.text();
  return misuse("--epochs is " + std::to_string(options.epochs) + ", but --max-duration is " +
                most + ", which says in its place how long the run is: give one of the two" +
                (given(options, "--max-duration")
                     ? ""
                     : " (the program sets --max-duration; 0 leaves it to --epochs)"));
}

// What one option takes its meaning from another.
Status check_has_effect(const RunOptions& options) {
  if (!options.new_virtual_workers || options.resume != "never") return {};
  return misuse(
      "--new-virtual-workers lets a run go on with another V, and --resume never starts over, with "
      "whatever V: leave one of the two out");
}

// In place of global_batch_size, where that is given.
Status settle_batch_size(RunOptions& options, std::int64_t virtual_workers) {
  const std::int64_t all = options.global_batch_size;
  if (all == 0) return {};
  const std::string each = "global_batch_size is " + std::to_string(all) + ", and there are " +
                           std::to_string(virtual_workers) + " virtual workers";
  if (all % virtual_workers != 0)
    return misuse(each + ", which do not divide it: each step is a batch of equal size of each");
  const std::int64_t found = all / virtual_workers;
  const bool named =
      options.batch_size != RunOptions().batch_size || given(options, "--batch-size");
  if (named && options.batch_size != found)
    return misuse(each + ", each with " + std::to_string(found) + "; but batch_size is " +
                  std::to_string(options.batch_size) + ": give one of the two");
  options.batch_size = found;
  return obey(kBatchSize, options);
}

}  // namespace

std::int64_t RunSpec::samples_per_epoch() const {
  const std::int64_t padded = data_plan.samples_per_worker();
  const std::int64_t each =
      data_plan.drop_last_batch ? padded / data_plan.batch_size * data_plan.batch_size : padded;
  return each * data_plan.virtual_workers;
}

std::int64_t RunSpec::samples_before(const Position& at) const {
  const std::int64_t in_epoch = at.step * samples_per_share() * data_plan.virtual_workers;
  return at.epoch * samples_per_epoch() + std::min(in_epoch, samples_per_epoch());
}

bool RunSpec::checkpoint_due(const Position& at) const {
  const Duration& every = options.checkpoint_every;
  if (every.count == 0 || at.kind != Kind::kStep || at.update != 0 || at.global_step == 0)
    return false;
  return reaches(every, step_before(plan, at));
}

bool RunSpec::reaches(const Duration& every, const Position& at) const {
  if (every.unit == Duration::Unit::kEpochs)
    return at.step + 1 == plan.steps_per_epoch && (at.epoch + 1) % every.count == 0;
  if (every.unit == Duration::Unit::kSteps) return (at.global_step + 1) % every.count == 0;
  const Position behind{at.epoch, at.step + 1};
  return samples_before(behind) / every.count != samples_before(at) / every.count;
}

bool RunSpec::line_due(const Position& at) const {
  const Duration& every = options.log_every;
  if (every.none()) return false;
  if (every.unit == Duration::Unit::kSteps)
    return (at.step + 1) % std::min(every.count, plan.steps_per_epoch) == 0;
  return reaches(every, at);
}

bool RunSpec::line_begins(const Position& at) const {
  const Duration& every = options.log_every;
  if (every.none()) return false;
  if (every.unit == Duration::Unit::kSteps) return at.step % every.count == 0;
  return at.global_step == 0 || line_due(step_before(plan, at));
}

// Said of the options' names on the command line.
Status check_options(const RunSpec& spec, const Hooks& hooks, const TrainState& state) {
  const RunOptions& options = spec.options;
  const auto wrong = [](const std::string& what) { return Error{ErrorKind::kUsage, what}; };
  if (spec.train == nullptr && hooks.loss) return wrong("a run needs a training set");
  if (!spec.has_data()) LOCKSTEP_TRY(check_without_data(options));
  if (state.optimizers().empty()) return wrong("the train state has no optimizer; add one");
  for (const auto& each : state.optimizers()) LOCKSTEP_TRY(each->check());
  LOCKSTEP_TRY(check_parameters(state));
  LOCKSTEP_TRY(state.check_dense());
  if (hooks.start_from && !state.master_weights().empty())
    return wrong(
        "Trainer::start_from() loads into half weights, which MasterWeights would overwrite: load "
        "into the model before they are made");
  for (const auto& each : state.schedulers()) LOCKSTEP_TRY(each->check());
  LOCKSTEP_TRY(check_schedulers(state));
  if (state.scaler() != nullptr) LOCKSTEP_TRY(state.scaler()->check());
  if (options.output.empty()) return wrong("--output is empty; give the run directory's path");
  LOCKSTEP_TRY(check_local(options.resume));
  if (options.resume.empty())
    return wrong("--resume is empty; give auto, never or a checkpoint's path");
  LOCKSTEP_TRY(obey(kEpochs, options));
  LOCKSTEP_TRY(obey(kBatchSize, options));
  LOCKSTEP_TRY(obey(kGlobalBatchSize, options));
  LOCKSTEP_TRY(obey(kAccumulationSteps, options));
  LOCKSTEP_TRY(check_updates(options, state));
  LOCKSTEP_TRY(obey(kMaxSteps, options));
  LOCKSTEP_TRY(obey(kMaxSeconds, options));
  if (!std::isfinite(options.clip_grad_norm) || options.clip_grad_norm < 0)
    return wrong("clip_grad_norm is " + shortest(options.clip_grad_norm) +
                 "; a finite number, at least 0 (0: none)");
  const auto negative = [](const Duration& duration) {
    return duration.count < 0 || !(duration.seconds >= 0) || std::isinf(duration.seconds);
  };
  if (negative(options.checkpoint_every))
    return wrong("--checkpoint-every is " + options.checkpoint_every.text() + "; at least 0");
  for (const auto& [name, every] : {std::pair("--log-every is ", options.log_every),
                                    std::pair("--evaluate-every is ", options.evaluate_every)}) {
    if (negative(every)) return wrong(name + every.text() + "; at least 0");
    if (every.unit == Duration::Unit::kTime && !every.none())
      return wrong(
          name + every.text() +
          "; what is printed is the same in each run, so it is steps, samples (100000sp) "
          "or epochs (1ep). `lockstep run --progress SECONDS` says every so often how a run "
          "is getting on");
  }
  if (negative(options.max_duration))
    return wrong("--max-duration is " + options.max_duration.text() + "; at least 0");
  LOCKSTEP_TRY(check_one_length(options));
  LOCKSTEP_TRY(check_has_effect(options));
  LOCKSTEP_TRY(obey(kKeepCheckpoints, options));
  LOCKSTEP_TRY(obey(kRehearse, options));
  LOCKSTEP_TRY(obey(kVirtualWorkers, options));
  LOCKSTEP_TRY(obey(kEvaluationBatchSize, options));
  if (!has_evaluation(spec, hooks) && !options.evaluate_every.none() &&
      (options.evaluate_every != Duration::epochs(1) || given(options, "--evaluate-every")))
    return wrong("--evaluate-every is " + options.evaluate_every.text() +
                 ", but this program evaluates nothing: leave the option out");
  if (hooks.plateau_of_accuracy && (!has_evaluation(spec, hooks) || options.evaluate_every.none()))
    return wrong(
        "ReduceLROnPlateau with mode kMax steps by the accuracy of an evaluation, and "
        "there is none: give fit() a test set (and --evaluate-every not 0), or say kMin");
  if ((spec.test == nullptr || options.evaluate_every.none()) &&
      (hooks.best.of == BestOf::kLoss || hooks.best.of == BestOf::kAccuracy))
    return wrong(
        "Trainer::best() by an evaluation's loss or accuracy needs a test set; give "
        "fit() one (and --evaluate-every not 0), or say BestOf::kTrainLoss");
  if (spec.test != nullptr && spec.test->size() < 1) return wrong("the test set is empty");
  return {};
}

Status make_plans(RunSpec& spec, const Hooks& hooks, int virtual_workers, bool keeps_book) {
  const RunOptions& options = spec.options;
  if (!spec.has_data()) spec.options.batch_size = 1;
  LOCKSTEP_TRY(settle_batch_size(spec.options, virtual_workers));
  if (options.evaluation_batch_size == 0) spec.options.evaluation_batch_size = options.batch_size;
  spec.evaluates = has_evaluation(spec, hooks) && !options.evaluate_every.none();
  data::DataPlan& data_plan = spec.data_plan;
  data_plan = spec.has_data() ? data_plan_of(spec, virtual_workers)
                              : plan_without_data(virtual_workers, options.seed);
  if (spec.has_data()) LOCKSTEP_TRY(data_plan.check());
  Plan& plan = spec.plan;
  plan.has_epochs = spec.has_data();
  plan.batches_per_epoch = data_plan.steps_per_epoch();
  plan.batches_per_step = std::min(options.accumulation_steps, plan.batches_per_epoch);
  plan.steps_per_epoch =
      (plan.batches_per_epoch + plan.batches_per_step - 1) / plan.batches_per_step;
  if (spec.samples_per_share() > kMostSamples)
    return Error{ErrorKind::kUsage,
                 "--accumulation-steps is " + std::to_string(options.accumulation_steps) +
                     "; with --batch-size " + std::to_string(options.batch_size) + " at most " +
                     std::to_string(kMostSamples / options.batch_size)};
  plan.updates_per_step = options.updates_per_step;
  plan.epochs = spec.has_data() ? options.epochs : 1;
  plan.max_steps = options.max_steps;
  spec.max_seconds = options.max_seconds;
  limit_by_duration(spec);
  const Duration& limit = options.max_duration;
  if (const std::int64_t most = kMostTxns / (plan.steps_per_epoch + 1) / options.updates_per_step;
      plan.epochs > most)
    return Error{ErrorKind::kUsage, (limit.none() ? "--epochs is " + std::to_string(plan.epochs)
                                                  : "--max-duration is " + limit.text() + ", " +
                                                        std::to_string(plan.epochs) + " epochs") +
                                        "; with " + std::to_string(plan.steps_per_epoch) +
                                        " steps an epoch at most " + std::to_string(most)};
  if (spec.evaluates) place_evaluations(spec);
  if (plan.evaluated_epochs > plan.epochs)
    return Error{ErrorKind::kUsage, "--evaluate-every is " + options.evaluate_every.text() +
                                        ", and the run has " + std::to_string(plan.epochs) +
                                        " epochs: none would be evaluated (0 says so)"};
  plan.exports = hooks.exports != nullptr || !hooks.best.nothing();
  plan.ends_epochs = keeps_book && (spec.evaluates || hooks.ends_epochs());
  return {};
}

}  // namespace lockstep::training
