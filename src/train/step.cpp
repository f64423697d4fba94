#include "lockstep/step.h"

#include <algorithm>

#include "base/guard.h"
#include "train/run.h"

namespace lockstep {

bool StepResult::left_out() const { return std::ranges::none_of(updates, &UpdateResult::made); }

void Share::no_batch() {
  throw Thrown(Error{ErrorKind::kUsage,
                     "Share::batch() in a run without data (Step::open() without a data set): give "
                     "open() one, or make the share's data of share.seed()"});
}

Step::Step(Context& context, TrainState& state, RunOptions options)
    : run_(std::make_unique<training::Run>(context, state, std::move(options))) {}
Step::~Step() = default;

Status Step::open(std::shared_ptr<const data::Dataset> train_set) {
  if (train_set == nullptr)
    return Error{ErrorKind::kUsage,
                 "Step::open() with an empty pointer for a training set; a run without data is "
                 "open() with no argument"};
  return run_->open(std::move(train_set), nullptr);
}
Status Step::open() { return run_->open(nullptr, nullptr); }

Result<bool> Step::next() {
  if (!run_->opened())
    return Error{ErrorKind::kUsage, "Step::next() before a successful Step::open()"};
  return run_->next();
}

bool Step::is_first() const { return run_->opened() && run_->is_first(); }
std::int64_t Step::epoch() const { return run_->opened() ? run_->epoch(run_->announced()) : 0; }
std::int64_t Step::global_step() const {
  return run_->opened() ? run_->global_step(run_->announced()) : 0;
}

void Step::on_update(std::function<void(UpdateEnd&)> hook) {
  run_->hooks.on_update.add(std::move(hook));
}

void Step::on_finished(std::function<Status()> call) { run_->hooks.on_finished = std::move(call); }
std::int64_t Step::steps_per_epoch() const { return run_->opened() ? run_->steps_per_epoch() : 0; }
std::int64_t Step::total_steps() const { return run_->opened() ? run_->planned_steps() : 0; }

// By their numbers in the state.
static Result<training::OptimizerList> numbered(const Optimizers& optimizers,
                                                const TrainState& state) {
  const auto wrong = [](const std::string& what) {
    return Error{ErrorKind::kUsage, "Step::run() " + what};
  };
  training::OptimizerList numbers;
  for (Optimizer* const optimizer : optimizers.list()) {
    const auto& known = state.optimizers();
    const auto found = std::find(known.begin(), known.end(), optimizer);
    if (found == known.end())
      return wrong(
          "with an optimizer that is not in the train state: a newcomer could not copy it; add it");
    const auto number = static_cast<std::size_t>(found - known.begin());
    if (std::ranges::count(numbers, number) != 0)
      return wrong("with '" + state.optimizer_name(number) + "' twice in one update");
    numbers.push_back(number);
    LOCKSTEP_TRY(optimizer->check());
  }
  if (numbers.empty()) return wrong("with an update of no optimizer");
  return numbers;
}

Result<StepResult> Step::run(const Optimizers& optimizers, const Closure& closure) {
  return run({Update{optimizers, closure}});
}

Result<StepResult> Step::run(const std::vector<Update>& updates) {
  if (!run_->opened())
    return Error{ErrorKind::kUsage, "Step::run() before a successful Step::open()"};
  std::vector<training::GivenUpdate> given;
  for (const Update& update : updates) {
    LOCKSTEP_ASSIGN(training::OptimizerList numbers, numbered(update.optimizers, run_->state()));
    if (!update.loss) return Error{ErrorKind::kUsage, "Step::run() with an update without a loss"};
    given.push_back({std::move(numbers), &update.loss});
  }
  return run_->run_next(std::move(given));
}

}  // namespace lockstep
