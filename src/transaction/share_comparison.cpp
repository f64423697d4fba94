#include "transaction/share_comparison.h"

#include <bit>
#include <cmath>

#include "base/text.h"

namespace lockstep::transaction {

static bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

static std::string number_text(double number) {
  return std::isnan(number) ? "nan" : shortest(number);
}

ShareLoss loss_of(const coord::ShareRecord& record) {
  return {record.loss_sum / static_cast<double>(record.loss_count), record.loss_count};
}

bool same_loss(const ShareLoss& one, const ShareLoss& other) {
  return same_bits(one.mean, other.mean) && one.count == other.count;
}

std::string loss_text(const ShareLoss& loss) {
  return loss.count == 0 ? "none (it took no part)" : number_text(loss.mean);
}

static bool same_sum(const Sums& one, const Sums& other, const std::string& name) {
  return one.has(name) == other.has(name) && same_bits(one[name].sum, other[name].sum) &&
         one[name].count == other[name].count;
}

std::string first_difference(const Sums& first, const Sums& again) {
  for (const Sums* sums : {&first, &again})
    for (const auto& [name, sum] : *sums)
      if (!same_sum(first, again, name)) return name;
  return "";
}

std::string sum_text(const Sums& sums, const std::string& name) {
  if (!sums.has(name)) return "nothing";
  return number_text(sums[name].sum) + " of " + std::to_string(sums[name].count);
}

}  // namespace lockstep::transaction
