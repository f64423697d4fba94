// language_model_plain CHECKPOINT STEPS PIECES: the plain loop of libtorch that
// examples/language_model is with one virtual worker.
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/optim.h"
#include "model.h"
#include "plain_loop.h"

static lockstep::Status train(const std::string& checkpoint, std::int64_t steps,
                              std::int64_t pieces) {
  const at::Tensor text = made_up_text(kRows * pieces * kLetters + 1);
  const at::Tensor inputs = pieces_of(text.slice(0, 0, -1), pieces);
  const at::Tensor targets = pieces_of(text.slice(0, 1), pieces);
  at::manual_seed(0);
  LanguageModel model;
  lockstep::Adam optimizer(model->parameters(), {.lr = 2e-3});
  at::Tensor h, c;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t piece = step % pieces;
    if (piece == 0) h = c = at::zeros({1, kRows, kHidden});
    model->zero_grad();
    const auto [scores, behind] = model->forward(inputs[piece], {h, c});
    h = std::get<0>(behind).detach();
    c = std::get<1>(behind).detach();
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(scores.flatten(0, 1), targets[piece].flatten());
    loss.backward();
    lockstep::clip_grad_norm_(model->parameters(), 1);
    optimizer.step();
    plain::print_loss(loss);
  }
  return plain::compare(checkpoint, *model);
}

int main(int argc, char** argv) { return plain::run(argc, argv, train); }
