// How long, of a run: a limit or an interval. "10ep" is epochs, "500ba" optimizer steps (batches),
// "100000sp" samples; "2h30m", "90min", "1.5h" and "45s" are time. Counts are whole numbers, and
// none is below 0.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep {

struct Duration {
  enum class Unit { kEpochs, kSteps, kSamples, kTime };
  Unit unit = Unit::kSteps;
  std::int64_t count = 0;  // 0 or more, of those that are counted
  double seconds = 0;      // 0 or more, finite, of time

  // 0, in whatever unit: no limit, no interval.
  bool none() const { return unit == Unit::kTime ? seconds == 0 : count == 0; }
  static constexpr Duration steps(std::int64_t count) { return {Unit::kSteps, count, 0}; }
  static constexpr Duration epochs(std::int64_t count) { return {Unit::kEpochs, count, 0}; }
  // As parse() takes it: "500ba", "9000s".
  std::string text() const;

  // All of the text. Counts are whole numbers; time may have several parts, the larger unit first,
  // each once and with a fraction. A bare number counts `bare`. kUsage, with the text and what
  // would be right.
  static Result<Duration> parse(std::string_view text);
  static Result<Duration> parse(std::string_view text, Unit bare);

  friend bool operator==(const Duration&, const Duration&) = default;
};

}  // namespace lockstep
