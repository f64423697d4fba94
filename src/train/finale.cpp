#include "train/finale.h"

#include <string>

#include "base/env.h"
#include "train/lines.h"

namespace lockstep::training {
namespace {

constexpr std::uint64_t kResultLimitBytes = 4096;

// The record that there is begins as this one.
bool has_recorded(const std::string& run_dir, const std::string& result) {
  const auto there = posix_env().read(run_dir + "/result.json", kResultLimitBytes);
  return there.ok() && there->starts_with(result);
}

}  // namespace

worker::Finale finale(const RunSpec& spec, const TrainState& state, std::int64_t steps,
                      double seconds, bool trained) {
  const std::string weights = state.weights_sha256();
  worker::Finale finale;
  finale.console =
      "Training complete in: " + duration_text(seconds) + "\nweights sha256 " + weights + "\n";
  const std::string result = "{\"weights_sha256\":\"" + weights + "\",\"state_sha256\":\"" +
                             state.sha256() + "\",\"steps\":" + std::to_string(steps) + ",";
  if (trained || !has_recorded(spec.options.output, result))
    finale.summary = result + "\"seconds\":" + std::to_string(seconds) + "}\n";
  return finale;
}

}  // namespace lockstep::training
