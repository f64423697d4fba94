// What a report says of its runs: the figures they have, and those that follow from them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/report/run.h"
#include "lockstep/status.h"

namespace lockstep::inspect {

// Figures that follow from a run's own, and from the run of one worker among all:
struct Derived {
  std::optional<double> steps_per_epoch;     // or ceil(samples per epoch / global batch)
  std::optional<double> epochs_in_budget;    // begun in it: ceil(budget / epoch time)
  std::optional<double> scaling_efficiency;  // T1 / (N TN) of epoch times
};
std::vector<Derived> derive(std::span<const Run> runs);

struct Row {
  std::string label;
  std::vector<std::optional<std::string>> cells;  // by run; empty: missing
};
// Figures down, runs across, in the order of the tutorial's table; rows that no run has included.
std::vector<Row> rows_of(std::span<const Run> runs);

inline constexpr std::string_view kMissing = "–";

// "2h", "90min", "1h30min", "45s": seconds. kUsage.
Result<double> parse_duration(std::string_view text);

// The first of a name has what later ones of it lack filled in; all that are left have names of
// their own.
std::vector<Run> merged(std::vector<Run> runs);

}  // namespace lockstep::inspect
