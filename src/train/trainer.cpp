#include "lockstep/trainer.h"

#include "lockstep/vision.h"
#include "train/evaluation_mode.h"
#include "train/run.h"

namespace lockstep {

class Trainer::Impl {
 public:
  Impl(Context& context, torch::nn::Module& module, Optimizer& optimizer, RunOptions options)
      : model(module),
        updates_per_step(options.updates_per_step),
        run(context, state, std::move(options), &book) {
    added = state.add("model", model);
    if (added.ok()) added = state.add("optimizer", optimizer);
    if (added.ok()) added = state.add("epochs", book.state());
  }
  // Once the run is open it is the run that tells: fit() has asked before.
  void take(const Status& status) {
    if (!added.ok() || status.ok()) return;
    added = status;
    if (run.opened()) run.hooks.on_update.refuse(status.error());
  }
  void add(LRScheduler& scheduler) {
    const std::size_t number = state.schedulers().size();
    take(state.add("scheduler" + (number == 0 ? "" : std::to_string(number)), scheduler));
  }
  void add(LRScheduler& scheduler, std::function<void(const EpochEnd&)> step) {
    add(scheduler);
    run.hooks.schedules.push_back(std::move(step));
  }
  void add_by_update(LRScheduler& scheduler, std::function<void(double)> step) {
    add(scheduler);
    run.hooks.update_schedules.push_back({&scheduler, std::move(step)});
  }
  // One that goes by nothing but its calls.
  template <class Scheduler>
  void schedule(Scheduler& scheduler, Per per) {
    if (per == Per::kUpdate)
      add_by_update(scheduler, [&scheduler](double) { scheduler.step(); });
    else
      add(scheduler, [&scheduler](const EpochEnd&) { scheduler.step(); });
  }

  torch::nn::Module& model;
  const std::int64_t updates_per_step;
  training::EpochBook book;
  TrainState state;

  // The state has a part for sums where shares can add any: checkpoints of others are as before.
  Status settle_sums() {
    const std::string& name = run.hooks.best.name;
    if (!name.empty()) LOCKSTEP_TRY(training::check_sum_name("Trainer::best()", name));
    if (takes_share) return state.add("lockstep.sums", book.sums_state());
    if (name.empty()) return {};
    return Error{ErrorKind::kUsage,
                 "Trainer::best(\"" + name +
                     "\") goes by what shares add (Share::add()), and the loss is one of a batch: "
                     "give Trainer::loss() one of a Share"};
  }

  bool takes_share = false;
  Status added;
  training::Run run;
};

Trainer::Trainer(Context& context, torch::nn::Module& model, Optimizer& optimizer,
                 RunOptions options)
    : impl_(std::make_unique<Impl>(context, model, optimizer, std::move(options))) {}
Trainer::~Trainer() = default;

void Trainer::loss(Loss loss) {
  impl_->run.hooks.loss = [loss = std::move(loss)](Share& share) { return loss(share.batch()); };
  impl_->takes_share = false;
}

void Trainer::loss(CountedLoss loss) {
  impl_->run.hooks.loss = [loss = std::move(loss)](Share& share) {
    LossAndCorrect found = loss(share.batch());
    share.correct_ = found.correct;
    return found.loss;
  };
  impl_->takes_share = false;
}

void Trainer::loss(ShareLoss loss) {
  impl_->run.hooks.loss = std::move(loss);
  impl_->takes_share = true;
}

void Trainer::add(const std::string& name, torch::nn::Module& module) {
  impl_->take(impl_->state.add(name, module));
}

void Trainer::add(const std::string& name, const NamedTensors& tensors) {
  impl_->take(impl_->state.add(name, tensors));
}

void Trainer::refuse(Error error) { impl_->take(std::move(error)); }

void Trainer::add_carried(const std::string& name, const at::Tensor& row) {
  impl_->take(impl_->state.add_carried(name, row));
}

void Trainer::evaluation(Evaluation evaluation, EvaluatedOn set) {
  impl_->run.hooks.evaluated_on = set;
  impl_->run.hooks.evaluation = [this,
                                 evaluation = std::move(evaluation)](const data::Batch& batch) {
    const training::EvaluationMode mode(impl_->model);
    return evaluation(batch);
  };
}

void Trainer::schedule(StepLR& scheduler, Per per) { impl_->schedule(scheduler, per); }

void Trainer::schedule(LambdaLR& scheduler, Per per) { impl_->schedule(scheduler, per); }

void Trainer::schedule(ReduceLROnPlateau& scheduler, Per per) {
  if (per == Per::kUpdate) {
    if (scheduler.options().mode == ReduceLROnPlateauOptions::Mode::kMax)
      impl_->take(Error{ErrorKind::kUsage,
                        "Trainer::schedule(): ReduceLROnPlateau per update goes by the update's "
                        "loss, which falls: its mode is kMin, not kMax"});
    return impl_->add_by_update(scheduler, [&scheduler](double loss) { scheduler.step(loss); });
  }
  if (scheduler.options().mode == ReduceLROnPlateauOptions::Mode::kMax) {
    impl_->run.hooks.plateau_of_accuracy = true;
    return impl_->add(scheduler, [&scheduler](const EpochEnd& end) {
      if (end.count > 0) scheduler.step(end.accuracy);
    });
  }
  impl_->add(scheduler, [this, &scheduler](const EpochEnd& end) {
    if (end.count > 0)
      scheduler.step(end.loss);
    else if (!impl_->run.evaluates())
      scheduler.step(end.train_loss);
  });
}

void Trainer::scaler(GradScaler& scaler) { impl_->take(impl_->state.add("scaler", scaler)); }

void Trainer::keep_history() { impl_->take(impl_->state.add(impl_->book.keep_history())); }

void Trainer::master_weights(MasterWeights& masters) {
  impl_->take(impl_->state.add("master_weights", masters));
}

void Trainer::on_update(std::function<void(UpdateEnd&)> hook) {
  impl_->run.hooks.on_update.add(std::move(hook));
}

void Trainer::best(BestOf best_of) { impl_->run.hooks.best = best_of; }

void Trainer::best(std::string name, BestMode mode) {
  impl_->run.hooks.best = {std::move(name), mode};
}

void Trainer::step_lines(std::function<std::string(const StepEnd&)> lines) {
  impl_->run.hooks.step_lines = std::move(lines);
}

void Trainer::epoch_lines(std::function<std::string(const EpochEnd&)> lines) {
  impl_->run.hooks.epoch_lines = std::move(lines);
}

void Trainer::exports(std::function<Result<bool>(const EpochEnd&)> call,
                      std::function<std::string(const EpochEnd&)> lines) {
  impl_->run.hooks.exports = std::move(call);
  impl_->run.hooks.export_lines = std::move(lines);
}

void Trainer::stop_when(std::function<bool(const EpochEnd&)> call) {
  impl_->run.hooks.stop_when = std::move(call);
}

void Trainer::start_from(std::function<Result<std::optional<StartPoint>>()> call) {
  impl_->run.hooks.start_from = std::move(call);
}

void Trainer::on_resume(std::function<void(std::int64_t, std::int64_t)> call) {
  impl_->run.hooks.on_resume = std::move(call);
}

void Trainer::on_finished(std::function<Status()> call) {
  impl_->run.hooks.on_finished = std::move(call);
}

Status Trainer::fit(std::shared_ptr<const data::Dataset> train,
                    std::shared_ptr<const data::Dataset> test) {
  if (!impl_->added.ok()) return impl_->added;
  if (impl_->updates_per_step != 1)
    return Error{ErrorKind::kUsage, "updates_per_step is " +
                                        std::to_string(impl_->updates_per_step) +
                                        ", but a Trainer's step is one update of its optimizer: "
                                        "several are Step::run()'s"};
  if (!impl_->run.hooks.loss)
    return Error{ErrorKind::kUsage,
                 "Trainer::fit() before Trainer::loss(): say what a batch's loss is"};
  if (test != nullptr && !impl_->run.hooks.evaluation)
    return Error{
        ErrorKind::kUsage,
        "Trainer::fit() with a test set before Trainer::evaluation(): say how it is scored"};
  const auto* pictures = dynamic_cast<const data::PictureSet*>(train.get());
  if (const auto* others = dynamic_cast<const data::PictureSet*>(test.get()); pictures && others)
    LOCKSTEP_TRY(data::check_same_classes(*pictures, *others, "the test set"));
  LOCKSTEP_TRY(impl_->settle_sums());
  LOCKSTEP_TRY(impl_->run.open(std::move(train), std::move(test)));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, impl_->run.next());
    if (!more) return {};
    LOCKSTEP_TRY(impl_->run.run_next({{{0}, &impl_->run.hooks.loss}}));
  }
}

}  // namespace lockstep
