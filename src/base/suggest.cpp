#include "base/suggest.h"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t kLeastPrefix = 4;

// Damerau-Levenshtein distance, restricted form (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t far = distance(name, candidate);
    if (far < least) {
      least = far;
      best = candidate;
    }
  }
  if (best || name.size() < kLeastPrefix) return best;
  const auto longer = std::ranges::find_if(
      known, [&](const std::string& candidate) { return candidate.starts_with(name); });
  return longer == known.end() ? best : *longer;
}

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  const auto nearest = nearest_name(name, known);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace lockstep
