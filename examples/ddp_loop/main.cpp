// A loop in PyTorch's style: DistributedDataParallel, DistributedSampler, gradient accumulation
// with no_sync, a save by rank 0. Line by line what the Python tutorial does. A worker's death ends
// such a loop; `--max-restarts 3` starts it again from its beginning, as torchrun does.
//
//   lockstep run --standalone --nproc-per-node 2 build/release/examples/ddp_loop
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "lockstep/lockstep.h"

namespace F = torch::nn::functional;
namespace data = lockstep::data;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(784, 128));
    scores = register_module("scores", torch::nn::Linear(128, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    return scores(F::relu(hidden(images.flatten(1))));
  }
  torch::nn::Linear hidden{nullptr}, scores{nullptr};
};
TORCH_MODULE(Net);

struct Options {
  std::string data = "synthetic", output = "ddp_loop-run";
  std::int64_t epochs = 1, batch_size = 100, accumulate = 2, max_steps = 200;
};

// What would train nothing is a slip. `samples`: of each rank, in one epoch.
static lockstep::Status check(const Options& options, std::int64_t samples) {
  using lockstep::Error, lockstep::ErrorKind, std::to_string;
  const std::int64_t batches = samples / options.batch_size;
  if (batches == 0)
    return Error{ErrorKind::kUsage, "--batch-size is " + to_string(options.batch_size) +
                                        "; a rank has " + to_string(samples) + " samples"};
  if (options.accumulate > options.max_steps ||
      (options.accumulate - 1) / batches >= options.epochs)
    return Error{ErrorKind::kUsage,
                 "--accumulate is " + to_string(options.accumulate) +
                     ", more than all backwards of the run (--max-steps " +
                     to_string(options.max_steps) + "; --epochs " + to_string(options.epochs) +
                     " of " + to_string(batches) +
                     " batches each): no update would be made; give a smaller one"};
  return {};
}

static lockstep::Status train(lockstep::Context& context, const Options& options) {
  LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(context, {.output = options.output}));
  LOCKSTEP_ASSIGN(auto digits, data::open_images(options.data, data::Split::kTrain));
  const data::DistributedSampler sampler{
      .dataset_size = digits->size(), .num_replicas = group.world_size(), .rank = group.rank()};
  at::manual_seed(0);
  lockstep::DistributedDataParallel ddp(Net(), group);
  lockstep::SGD optimizer(ddp.parameters(), {.lr = 0.1, .momentum = 0.9});

  const std::size_t batch = static_cast<std::size_t>(options.batch_size);
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    LOCKSTEP_ASSIGN(const auto ids, sampler.order(static_cast<std::uint64_t>(epoch)));
    LOCKSTEP_TRY(check(options, static_cast<std::int64_t>(ids.size())));
    for (std::size_t at = 0; at + batch <= ids.size() && step < options.max_steps; at += batch) {
      LOCKSTEP_ASSIGN(const data::Batch samples,
                      digits->get(std::span(ids).subspan(at, batch), {}));
      const auto loss_of = [&] { return F::cross_entropy(ddp(samples.inputs), samples.targets); };
      if (++step % options.accumulate != 0) {
        const auto quiet = ddp.no_sync();
        (loss_of() / options.accumulate).backward();  // adds up in this rank alone
        continue;
      }
      const at::Tensor loss = loss_of();
      (loss / options.accumulate).backward();  // on return, grad() is the mean over ranks
      optimizer.step();
      optimizer.zero_grad();
      if (group.rank() == 0 && step % 50 == 0)
        std::printf("Epoch [%lld/%lld], Step [%lld], Loss: %.4f\n",
                    static_cast<long long>(epoch + 1), static_cast<long long>(options.epochs),
                    static_cast<long long>(step), loss.item<double>());
    }
  }
  if (group.rank() == 0) {
    const auto weights = lockstep::state_dict(*ddp.module());
    LOCKSTEP_TRY(lockstep::save_safetensors(options.output + "/model.safetensors", weights));
    LOCKSTEP_ASSIGN(const std::string hash, lockstep::weights_sha256(weights));
    std::printf("weights sha256 %s\n", hash.c_str());
  }
  return group.barrier();
}

int main(int argc, char** argv) {
  Options options;
  lockstep::CommandLine line("ddp_loop", "digits with a small net, in a loop in PyTorch's style");
  line.add_path("--data", options.data, "'synthetic', or a folder with MNIST's IDX files");
  line.add_path("--output", options.output, "the run directory");
  line.add("--epochs", options.epochs, "passes over the data", {.least = 1});
  line.add("--batch-size", options.batch_size, "of each rank", {.least = 1});
  line.add("--accumulate", options.accumulate, "backwards per update", {.least = 1});
  line.add("--max-steps", options.max_steps, "backwards in all", {.least = 1});
  line.parse(argc, argv);

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, lockstep::catch_errors([&] { return train(*context, options); }));
}
