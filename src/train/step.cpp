#include "lockstep/step.h"

#include <algorithm>

#include "train/run.h"

namespace lockstep {

Step::Step(Context& context, TrainState& state, RunOptions options)
    : run_(std::make_unique<training::Run>(context, state, std::move(options))) {}
Step::~Step() = default;

Status Step::open(std::shared_ptr<const data::Dataset> train_set) {
  return run_->open(std::move(train_set), nullptr);
}

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

void Step::on_finished(std::function<Status()> call) { run_->hooks.on_finished = std::move(call); }
std::int64_t Step::steps_per_epoch() const { return run_->opened() ? run_->steps_per_epoch() : 0; }
std::int64_t Step::total_steps() const { return run_->opened() ? run_->planned_steps() : 0; }

Status Step::run(Optimizer& optimizer, const Closure& closure) {
  if (!run_->opened())
    return Error{ErrorKind::kUsage, "Step::run() before a successful Step::open()"};
  const auto& known = run_->state().optimizers();
  const auto found = std::find(known.begin(), known.end(), &optimizer);
  if (found == known.end())
    return Error{ErrorKind::kUsage,
                 "Step::run() with an optimizer that is not in the train state: a newcomer could "
                 "not copy it; add it"};
  LOCKSTEP_TRY(optimizer.check());
  run_->hooks.loss = closure;
  return run_->run_next(static_cast<std::size_t>(found - known.begin()));
}

}  // namespace lockstep
