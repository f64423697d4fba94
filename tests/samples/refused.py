"""What a beginner writes and the compiler must refuse in one sentence: refused.py COMPILER TORCH_DIR"""
import pathlib
import re
import subprocess
import sys

# Above each line the sentence's beginning. All else is right.
SOURCE = """
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <memory>
#include "lockstep/step.h"
#include "lockstep/trainer.h"
using lockstep::Status;

Status loop(lockstep::Step& step) {
  // a Result<bool> is no condition: it would be ok(), and not its value. Write LOCKSTEP_ASSIGN(
  while (step.next()) {
  }
  return {};
}

Status parts(lockstep::TrainState& state, lockstep::Trainer& trainer) {
  torch::nn::Linear net(2, 1);
  LOCKSTEP_TRY(state.add("net", net));
  trainer.add("net", net);
  const auto shared = std::make_shared<torch::nn::LinearImpl>(2, 1);
  LOCKSTEP_TRY(state.add("shared", shared));
  const auto adam = std::make_unique<torch::optim::Adam>(net->parameters());
  // an optimizer of torch::optim does not fit, as its state has no fixed place: take lockstep::SGD
  LOCKSTEP_TRY(state.add("optimizer", adam));
  at::Tensor episodes;
  // a tensor of the train state has a name in its group: state.add("counts", {{"episodes", episodes
  LOCKSTEP_TRY(state.add("episodes", episodes));
  LOCKSTEP_TRY(state.add("counts", {{"episodes", episodes}}));
  // the train state takes a torch::nn module, a lockstep optimizer, scheduler, GradScaler or
  return state.add("parameters", net->parameters());
}
"""


def main():
    compiler, torch = sys.argv[1:]
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    command = [compiler, "-x", "c++", "-std=c++20", "-fsyntax-only", f"-I{include}", "-idirafter", f"{torch}/include",
               "-idirafter", f"{torch}/include/torch/csrc/api/include", "-"]
    run = subprocess.run(command, input=SOURCE, capture_output=True, text=True, timeout=200)
    wanted = re.findall(r"^ *// (.*)$", SOURCE, re.MULTILINE)
    found = [line.replace('\\"', '"') for line in run.stderr.splitlines() if " error: " in line]
    wrong = [sentence for sentence in wanted if not any(sentence in line for line in found)]
    if wrong or len(found) != len(wanted):
        print(run.stderr)
        raise SystemExit(f"not said: {wrong}; {len(found)} errors in place of {len(wanted)}")


main()
