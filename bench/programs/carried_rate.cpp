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

#include <map>
#include <tuple>

#include "programs/rate_loop.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kRows = 20, kLetters = 30, kVocabulary = 1000, kWidth = 256;
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

Status train(Context& context, const RateJob& job) {
  const bool carried = job.form == "carried";
  at::manual_seed(0);
  Model model;
  SGD optimizer(model.parameters(), {.lr = 0.1});
  RunOptions options = rate_options("carried_rate", job);
  options.epochs = 1;
  options.batch_size = 1;
  options.shuffle = data::Shuffle::kRows;
  const at::Tensor text =
      at::randint(kVocabulary, {job.all() * options.virtual_workers, kRows, kLetters}, at::kLong);
  LOCKSTEP_ASSIGN(auto set, data::tensor_dataset(text, text));
  TrainState state;
  LOCKSTEP_TRY(state.add("model", model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  if (carried) LOCKSTEP_TRY(state.add_carried("h", Memory::nothing()));
  if (carried) LOCKSTEP_TRY(state.add_carried("c", Memory::nothing()));
  Memory memory(carried);
  Step step(context, state, options);
  LOCKSTEP_TRY(step.open(set));
  const auto loss = [&](Share& share) {
    const at::Tensor letters = share.batch().inputs[0];
    const auto [out, behind] = model.lstm(model.letters(letters), memory.before(share));
    memory.behind(share, behind);
    return torch::nn::functional::cross_entropy(model.next(out).flatten(0, 1), letters.flatten());
  };
  return timed(context, job, [&]() -> Result<bool> {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (more) LOCKSTEP_TRY(step.run(optimizer, loss));
    return more;
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::rate_main(argc, argv, "carried_rate", "carried", "kept",
                                    lockstep::bench::train);
}
