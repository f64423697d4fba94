#include "lockstep/trainer.h"

#include <torch/nn/module.h>

#include "train/run.h"

namespace lockstep {

class Trainer::Impl {
 public:
  Impl(Context& context, torch::nn::Module& module, Optimizer& optimizer, RunOptions options)
      : model(module), run(context, state, std::move(options)) {
    added = state.add("model", model);
    if (added.ok()) added = state.add("optimizer", optimizer);
  }
  torch::nn::Module& model;
  TrainState state;
  Status added;
  train::Run run;
};

Trainer::Trainer(Context& context, torch::nn::Module& model, Optimizer& optimizer,
                 RunOptions options)
    : impl_(std::make_unique<Impl>(context, model, optimizer, std::move(options))) {
  impl_->run.set_training = [this](bool training) { impl_->model.train(training); };
}
Trainer::~Trainer() = default;

void Trainer::loss(Loss loss) {
  impl_->run.loss = [loss = std::move(loss)](Share& share) { return loss(share.batch()); };
}

void Trainer::evaluation(Evaluation evaluation) { impl_->run.evaluation = std::move(evaluation); }

Status Trainer::fit(std::shared_ptr<const data::Dataset> train,
                    std::shared_ptr<const data::Dataset> test) {
  if (!impl_->added.ok()) return impl_->added;
  if (!impl_->run.loss)
    return Error{ErrorKind::kUsage,
                 "Trainer::fit() before Trainer::loss(): say what a batch's loss is"};
  LOCKSTEP_TRY(impl_->run.open(std::move(train), std::move(test)));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, impl_->run.next());
    if (!more) return {};
    LOCKSTEP_TRY(impl_->run.run_next());
  }
}

}  // namespace lockstep
