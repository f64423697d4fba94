// language_model_plain CHECKPOINT STEPS PIECES: the plain loop of libtorch that
// examples/language_model is with one virtual worker. Prints the losses as metrics.jsonl has them,
// and whether the checkpoint's parameters are these.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/checkpoint.h"
#include "lockstep/optim.h"
#include "model.h"

namespace {

using lockstep::Status;

Status compare(const std::string& folder, const torch::nn::Module& module) {
  LOCKSTEP_ASSIGN(const auto saved, lockstep::load_safetensors(folder + "/model.safetensors"));
  for (const auto& own : module.named_parameters()) {
    bool same = false;
    for (const auto& [name, tensor] : saved)
      if (name == own.key()) same = at::equal(tensor, own.value());
    if (!same) std::printf("%s differs\n", own.key().c_str());
  }
  std::printf("compared\n");
  return {};
}

Status train(const std::string& folder, std::int64_t steps, std::int64_t pieces) {
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
    std::printf("%.17g\n", loss.item<double>());
  }
  return compare(folder, *model);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  at::set_num_threads(1);
  const Status status = train(argv[1], std::atol(argv[2]), std::atol(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
