#include "train/share_sums.h"

#include <algorithm>
#include <string_view>

#include "base/guard.h"
#include "base/text.h"
#include "lockstep/step.h"
#include "train/lines.h"
#include "transaction/noted_sums.h"

namespace lockstep::training {
namespace {

using transaction::kMostSumName;
using transaction::kMostSums;

// Counts are exact as fp64, too, and V shares of them are no more than an int64 has.
constexpr std::int64_t kMostCount = std::int64_t{1} << 52;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_one_of(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') ||
         std::string_view("./-").find(c) != std::string_view::npos;
}

std::string names_in(const Sums& sums) {
  std::string names;
  for (const auto& [name, sum] : sums) names += (names.empty() ? "'" : ", '") + name + "'";
  return names;
}

Error wrong_sum(const std::string& what) { return {ErrorKind::kUsage, what}; }

}  // namespace

Status check_sum_name(const std::string& call, const std::string& name) {
  const std::string what = call + " with the name '" + printable(name.substr(0, 64)) + "'";
  if (name.empty() || name.size() > kMostSumName)
    return wrong_sum(what + ", of " + std::to_string(name.size()) + " bytes; from 1 to " +
                     std::to_string(kMostSumName));
  if (!is_letter(name.front()) || !std::ranges::all_of(name, is_one_of))
    return wrong_sum(what +
                     "; a name is of letters, digits and _ . / -, and begins with a letter or "
                     "_ (\"reward\", \"loss/policy\")");
  if (is_metrics_key(name))
    return wrong_sum(what + ", which metrics.jsonl uses itself: take another");
  return {};
}

Status check_sum_names(const std::string& where, const Sums& sums) {
  if (sums.size() <= kMostSums) return {};
  return wrong_sum(where + ": shares add " + std::to_string(sums.size()) +
                   " names (Share::add()), " + names_in(sums) + "; at most " +
                   std::to_string(kMostSums));
}

void ShareSums::add(const std::string& name, double sum, std::int64_t count) {
  const auto refuse = [](const Status& status) {
    if (!status.ok()) throw Thrown(status.error());
  };
  refuse(check_sum_name("Share::add()", name));
  const std::string call = "Share::add(\"" + name + "\")";
  if (count < 0 || count > kMostCount - sums_[name].count)
    throw Thrown(wrong_sum(
        call + " with a count of " + std::to_string(count) +
        (count < 0 ? "; at least 0"
                   : "; in one share at most " + std::to_string(kMostCount) + " together")));
  sums_.add(name, {sum, count});
  refuse(check_sum_names(call, sums_));
}

}  // namespace lockstep::training

namespace lockstep {

void Share::add(const std::string& name, double sum, std::int64_t count) {
  check_call("Share::add()", "what the loop has to add up itself is no share's");
  sums_->add(name, sum, count);
}

}  // namespace lockstep
