#include "train/determinism.h"

#include <ATen/Context.h>

#include <utility>

namespace lockstep::train {

void use_deterministic_algorithms(Deterministic mode) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(mode != Deterministic::kOff, mode == Deterministic::kWarn);
  // A program that reads what it has not written is wrong in any mode, and filling costs time.
  context.setDeterministicFillUninitializedMemory(false);
}

std::string not_strict(Deterministic mode) {
  if (mode == Deterministic::kStrict) return "";
  return mode == Deterministic::kWarn ? "warn" : "off";
}

Error with_own_option(Error error) {
  if (error.message.find("does not have a deterministic implementation") == std::string::npos)
    return error;
  error.message += " (here that is --deterministic warn, RunOptions::deterministic)";
  return error;
}

}  // namespace lockstep::train
