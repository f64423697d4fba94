#include "lockstep/duration.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace lockstep {
namespace {

using Unit = Duration::Unit;

struct Counted {
  std::string_view name;
  Unit unit;
};
constexpr std::array<Counted, 3> kCounted{
    {{"ep", Unit::kEpochs}, {"ba", Unit::kSteps}, {"sp", Unit::kSamples}}};

struct Timed {
  std::string_view name;
  double seconds;
};
constexpr std::array<Timed, 4> kTimed{{{"h", 3600}, {"min", 60}, {"m", 60}, {"s", 1}}};

std::optional<Duration> counted(std::string_view text, Unit unit) {
  const auto count = number_of<std::int64_t>(text);
  if (!count || *count < 0 || text.starts_with('-')) return std::nullopt;
  return Duration{unit, *count, 0};
}

// Takes "30m" off the front: its seconds. Units fall: one of `below` seconds or more is none.
std::optional<double> take_part(std::string_view& rest, double& below) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || rest.starts_with('-')) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  for (const Timed& each : kTimed) {
    if (!rest.starts_with(each.name)) continue;
    if (each.seconds >= below) return std::nullopt;
    below = each.seconds;
    rest.remove_prefix(each.name.size());
    return number * each.seconds;
  }
  return std::nullopt;
}

std::optional<Duration> timed(std::string_view text) {
  Duration duration{Unit::kTime, 0, 0};
  if (text.empty()) return std::nullopt;
  double below = std::numeric_limits<double>::infinity();
  while (!text.empty()) {
    const auto seconds = take_part(text, below);
    if (!seconds) return std::nullopt;
    duration.seconds += *seconds;
  }
  return std::isfinite(duration.seconds) ? std::optional(duration) : std::nullopt;
}

std::optional<Duration> with_unit(std::string_view text) {
  for (const Counted& each : kCounted)
    if (text.ends_with(each.name))
      return counted(text.substr(0, text.size() - each.name.size()), each.unit);
  return timed(text);
}

Error wrong(std::string_view text) {
  return {ErrorKind::kUsage,
          "'" + std::string(text) +
              "', which is no duration; write it as 10ep (epochs), 500ba (optimizer "
              "steps), 100000sp (samples), 2h30m, 90min or 45s"};
}

}  // namespace

std::string Duration::text() const {
  if (unit == Unit::kTime) {
    std::array<char, 400> digits;  // the largest double has 309
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), seconds,
                                          std::chars_format::fixed)
                                .ptr;
    return std::string(static_cast<const char*>(digits.data()), end) + "s";
  }
  for (const Counted& each : kCounted)
    if (each.unit == unit) return std::to_string(count) + std::string(each.name);
  return "";
}

Result<Duration> Duration::parse(std::string_view text) {
  if (const auto duration = with_unit(text)) return *duration;
  return wrong(text);
}

Result<Duration> Duration::parse(std::string_view text, Unit bare) {
  if (bare != Unit::kTime)
    if (const auto duration = counted(text, bare)) return *duration;
  return parse(text);
}

}  // namespace lockstep
