// Truncated backpropagation through time: an LSTM reads a text piece by piece, and begins each with
// the hidden state behind the last one, which its share carries. Kill what you like.
//
//   lockstep run --standalone --nproc-per-node 3 build/release/examples/language_model
//
// Each virtual worker reads its own stretch of the text (Shuffle::kRows). With one, losses and
// parameters are the plain loop's (tests/loops/language_model_plain.cpp), bit for bit.
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/lockstep.h"
#include "model.h"

namespace F = torch::nn::functional;

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              std::int64_t pieces) {
  const at::Tensor text = made_up_text(kRows * pieces * kLetters + 1);
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(pieces_of(text.slice(0, 0, -1), pieces),
                                                           pieces_of(text.slice(0, 1), pieces)));
  at::manual_seed(options.seed);
  LanguageModel model;
  lockstep::Adam optimizer(model->parameters(), {.lr = 2e-3});

  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  const at::Tensor nothing = at::zeros({1, kRows, kHidden});
  LOCKSTEP_TRY(state.add_carried("h", nothing));
  LOCKSTEP_TRY(state.add_carried("c", nothing));

  const auto loss = [&](lockstep::Share& share) {
    LanguageModelImpl::State before{share.carried("h"), share.carried("c")};
    if (share.step() == 0) before = {nothing, nothing};  // an epoch: the text from its beginning
    const auto [scores, behind] = model->forward(share.batch().inputs[0], before);
    share.carry("h", std::get<0>(behind));
    share.carry("c", std::get<1>(behind));
    return F::cross_entropy(scores.flatten(0, 1), share.batch().targets[0].flatten());
  };

  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(optimizer, loss));
  }
}

int main(int argc, char** argv) {
  std::int64_t pieces = 240;
  lockstep::RunOptions options{.name = "language_model",
                               .output = "language-model-run",
                               .epochs = 4,
                               .batch_size = 1,
                               .clip_grad_norm = 1,
                               .shuffle = lockstep::data::Shuffle::kRows};
  lockstep::CommandLine line("language_model", "a made-up text by a small LSTM");
  line.add("--pieces", pieces, "of the text, 8 rows of 16 letters each");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, pieces));
}
