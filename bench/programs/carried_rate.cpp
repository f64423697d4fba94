// Milliseconds of a recurrent language model's step, by truncated backpropagation through time: 20
// rows of 30 letters a share, an LSTM of 256. Prints one JSON object.
//
//   lockstep run ... carried_rate carried WARM_UP STEPS RUN_DIR   V = 2, the state in carried rows
//   lockstep run ... carried_rate kept WARM_UP STEPS RUN_DIR      the same loop, which keeps the
//                                                                 state in the process: not exact
//
// Where nobody dies both end with the same weights.
#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

#include "base/deadline.h"
#include "lockstep/context.h"
#include "lockstep/step.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kRows = 20, kLetters = 30, kVocabulary = 1000, kWidth = 256;
constexpr int kVirtualWorkers = 2;
using State = std::tuple<at::Tensor, at::Tensor>;

struct Model : torch::nn::Module {
  Model() {
    register_module("letters", letters);
    register_module("lstm", lstm);
    register_module("next", next);
  }
  torch::nn::Embedding letters{kVocabulary, kWidth};
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(kWidth, kWidth).batch_first(true)};
  torch::nn::Linear next{kWidth, kVocabulary};
};

// Where a share's hidden state is between steps.
class Memory {
 public:
  explicit Memory(bool carried) : carried_(carried) {}
  State before(Share& share) {
    if (carried_) return {share.carried("h"), share.carried("c")};
    return kept_.try_emplace(share.virtual_worker(), nothing(), nothing()).first->second;
  }
  void behind(Share& share, const State& state) {
    const auto& [h, c] = state;
    if (carried_) {
      share.carry("h", h);
      share.carry("c", c);
    } else {
      kept_[share.virtual_worker()] = {h.detach(), c.detach()};
    }
  }
  static at::Tensor nothing() { return at::zeros({1, kRows, kWidth}); }

 private:
  const bool carried_;
  std::map<std::int64_t, State> kept_;
};

Status train(Context& context, bool carried, std::int64_t warm_up, std::int64_t steps,
             const char* run_dir) {
  at::manual_seed(0);
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.1});
  const std::vector<std::int64_t> shape{(warm_up + steps) * kVirtualWorkers, kRows, kLetters};
  const at::Tensor text = at::randint(kVocabulary, shape, at::kLong);
  LOCKSTEP_ASSIGN(auto set, data::tensor_dataset(text, text));
  RunOptions options;
  options.name = "carried_rate";
  options.output = run_dir;
  options.epochs = 1;
  options.batch_size = 1;
  options.shuffle = data::Shuffle::kRows;
  options.virtual_workers = kVirtualWorkers;
  options.resume = "never";
  options.checkpoint_every = {};
  options.log_every = {};
  options.rehearse = 0;
  TrainState state;
  LOCKSTEP_TRY(state.add("model", model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  if (carried) LOCKSTEP_TRY(state.add_carried("h", Memory::nothing()));
  if (carried) LOCKSTEP_TRY(state.add_carried("c", Memory::nothing()));
  Memory memory(carried);
  Step step(context, state, options);
  LOCKSTEP_TRY(step.open(set));
  std::uint64_t begin = 0;
  for (std::int64_t i = 0;; ++i) {
    if (i == warm_up) begin = monotonic_ns();
    if (i == warm_up + steps && context.rank() == 0)
      std::printf("{\"ms\": %.4f}\n",
                  static_cast<double>(monotonic_ns() - begin) * 1e-6 / static_cast<double>(steps));
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(optimizer, [&](Share& share) {
      const at::Tensor letters = share.batch().inputs[0];
      const auto [out, behind] = model.lstm(model.letters(letters), memory.before(share));
      memory.behind(share, behind);
      return torch::nn::functional::cross_entropy(model.next(out).flatten(0, 1), letters.flatten());
    }));
  }
}

int measure(int argc, char** argv) {
  const std::string how = argc == 5 ? argv[1] : "";
  if (how != "carried" && how != "kept") {
    std::fputs("usage: carried_rate carried|kept WARM_UP STEPS RUN_DIR\n", stderr);
    return 2;
  }
  auto context = init();
  if (!context.ok()) exit_with(context.error());
  exit_with(*context,
            train(*context, how == "carried", std::atol(argv[2]), std::atol(argv[3]), argv[4]));
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::measure(argc, argv); }
