// unequal_worker RUN_DIR: a loop whose state depends on the rank, which no run may have.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/step.h"

namespace {

lockstep::Status train(lockstep::Context& context, const std::string& output) {
  torch::nn::Linear model(2, 1);
  lockstep::SGD optimizer(model->parameters(), {.lr = 0.1});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  LOCKSTEP_TRY(
      state.add(lockstep::TrainState::Text{"rank", [&] { return std::to_string(context.rank()); },
                                           [](const std::string&) { return lockstep::Status(); }}));
  lockstep::RunOptions options;
  options.output = output;
  options.batch_size = 1;
  LOCKSTEP_ASSIGN(auto data, lockstep::data::tensor_dataset(at::ones({8, 2}), at::ones({8})));
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(data));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      return model->forward(share.batch().inputs).sum();
    }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  at::manual_seed(0);
  lockstep::exit_with(*context, train(*context, argv[1]));
}
