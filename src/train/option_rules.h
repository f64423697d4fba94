// What the numbers among a run's options may be, whether they come from the command line or from
// code.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "coord/table.h"
#include "lockstep/command_line.h"

namespace lockstep::training {

template <class T, class Field = T>
struct NumberRule {
  const char* name;  // on the command line, or of the field
  Field RunOptions::*field;
  Limits<T> limits;
};

// The names of add_run_options(), without dashes: command_line_test compares them.
inline constexpr std::array<std::string_view, 20> kRunOptions = {"accumulation-steps",
                                                                 "batch-size",
                                                                 "checkpoint-every",
                                                                 "deterministic",
                                                                 "drop-last",
                                                                 "epochs",
                                                                 "evaluate-every",
                                                                 "keep-checkpoints",
                                                                 "log-every",
                                                                 "max-steps",
                                                                 "max-duration",
                                                                 "new-virtual-workers",
                                                                 "on-nan",
                                                                 "on-save-error",
                                                                 "output",
                                                                 "rehearse",
                                                                 "resume",
                                                                 "seed",
                                                                 "shuffle",
                                                                 "virtual-workers"};

// Whether the command line had it, "--epochs".
inline bool given(const RunOptions& options, std::string_view name) {
  return std::ranges::find(options.given, name) != options.given.end();
}

// In the order of their enums.
inline constexpr std::array<std::string_view, 3> kOnNan = {"continue", "skip", "stop"};
inline constexpr std::array<std::string_view, 3> kDeterministic = {"strict", "warn", "off"};

inline constexpr std::int64_t kMostSamples = std::numeric_limits<std::int32_t>::max();

inline constexpr NumberRule<std::int64_t> kEpochs{"--epochs", &RunOptions::epochs, {.least = 1}};
inline constexpr NumberRule<std::int64_t> kBatchSize{
    "--batch-size", &RunOptions::batch_size, {.least = 1, .most = kMostSamples}};
inline constexpr NumberRule<std::int64_t> kAccumulationSteps{
    "--accumulation-steps", &RunOptions::accumulation_steps, {.least = 1, .most = kMostSamples}};
inline constexpr NumberRule<int> kVirtualWorkers{"--virtual-workers",
                                                 &RunOptions::virtual_workers,
                                                 {.least = 0, .most = coord::kMaxVirtualWorkers}};
inline constexpr NumberRule<std::int64_t> kMaxSteps{
    "--max-steps", &RunOptions::max_steps, {.least = 0}};
inline constexpr NumberRule<int, std::optional<int>> kKeepCheckpoints{
    "--keep-checkpoints", &RunOptions::keep_checkpoints, {.least = 1}};
inline constexpr NumberRule<std::int64_t, std::optional<std::int64_t>> kRehearse{
    "--rehearse", &RunOptions::rehearse, {.least = 0}};
// In code only.
inline constexpr NumberRule<double> kMaxSeconds{
    "max_seconds", &RunOptions::max_seconds, {.least = 0, .most = 1e9}};
inline constexpr NumberRule<std::int64_t> kGlobalBatchSize{
    "global_batch_size", &RunOptions::global_batch_size, {.least = 0}};
inline constexpr NumberRule<std::int64_t> kEvaluationBatchSize{"evaluation_batch_size",
                                                               &RunOptions::evaluation_batch_size,
                                                               {.least = 0, .most = kMostSamples}};

}  // namespace lockstep::training
