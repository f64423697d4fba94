// torch_data_worker CASE RUN_DIR: libtorch's own data set, with a map() that draws.
#include <ATen/Functions.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/lambda.h>
#include <torch/data/transforms/stack.h>
#include <torch/nn/modules/linear.h>

#include <random>
#include <string>

#include "lockstep/step.h"
#include "lockstep/torch_data.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;
using Example = torch::data::Example<>;

class Rows : public torch::data::datasets::Dataset<Rows> {
 public:
  Example get(std::size_t index) override {
    return {at::full({2}, static_cast<double>(index)), at::ones({1})};
  }
  c10::optional<std::size_t> size() const override { return 60; }
};

// Another number at each fetch, or one that goes by the row.
double drawn(const std::string& name, const Example& example) {
  static thread_local std::mt19937_64 engine{std::random_device()()};
  if (name == "by-row") return example.data[0].item<double>();
  if (name == "default-generator") return at::rand({}).item<double>();
  return std::uniform_real_distribution<double>()(engine);
}

Status train(lockstep::Context& context, const std::string& name, const std::string& output) {
  torch::nn::Linear net(2, 1);
  lockstep::SGD optimizer(net->parameters(), {.lr = 1e-5});
  const auto noisy = [name](Example example) {
    example.data = example.data + drawn(name, example);
    return example;
  };
  LOCKSTEP_ASSIGN(
      auto set, lockstep::data::from_torch(Rows()
                                               .map(torch::data::transforms::Lambda<Example>(noisy))
                                               .map(torch::data::transforms::Stack<>())));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::RunOptions options;
  options.output = output;
  options.epochs = 1;
  options.batch_size = 2;
  options.virtual_workers = 3;
  options.updates_per_step = 2;
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(set));
  const auto first = [&](Share& share) {
    const bool looks = name != "second";
    const at::Tensor inputs = looks ? share.batch().inputs : at::ones({2, 2});
    return net(inputs).pow(2).mean();
  };
  const auto second = [&](Share& share) { return net(share.batch().inputs).pow(2).mean(); };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run({{optimizer, first}, {optimizer, second}}));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) { return train(context, argv[1], argv[2]); });
}
