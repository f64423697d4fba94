#include "transaction/share_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.h"

namespace lockstep::transaction {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

std::string number_text(double number) { return std::isnan(number) ? "nan" : shortest(number); }

// In all bits; any NaN is any other.
bool same_loss(const ShareLoss& one, const ShareLoss& other) {
  return same_bits(one.mean, other.mean) && one.count == other.count;
}

std::string loss_text(const ShareLoss& loss) {
  return loss.count == 0 ? "none (it took no part)" : number_text(loss.mean);
}

bool same_sum(const Sums& one, const Sums& other, const std::string& name) {
  return one.has(name) == other.has(name) && same_bits(one[name].sum, other[name].sum) &&
         one[name].count == other[name].count;
}

// A name that one has and the other has otherwise, or not; empty: none.
std::string other_sum(const Sums& first, const Sums& second) {
  for (const Sums* sums : {&first, &second})
    for (const auto& [name, sum] : *sums)
      if (!same_sum(first, second, name)) return name;
  return "";
}

std::string sum_text(const Sums& sums, const std::string& name) {
  if (!sums.has(name)) return "nothing";
  return number_text(sums[name].sum) + " of " + std::to_string(sums[name].count);
}

std::optional<Difference> difference(const ComputedShare& first, const ComputedShare& second,
                                     std::uint32_t virtual_worker, const NamesOfWords& names) {
  using In = Difference::In;
  const std::string v = "virtual worker " + std::to_string(virtual_worker);
  const auto bits = [&](const std::string& what) {
    return what + " has other bits " + first.where + " than " + second.where;
  };
  const auto values = [&](const std::string& what, const std::string& a, const std::string& b) {
    return what + " " + a + " " + first.where + " and " + b + " " + second.where;
  };
  if (const auto tensor = first_other(first.state, second.state))
    return Difference{In::kState, false, bits("the train states differ: " + names.tensor(*tensor))};
  if (!same_loss(first.loss, second.loss))
    return Difference{
        In::kLoss, false,
        values("the loss of " + v + " is", loss_text(first.loss), loss_text(second.loss))};
  if (const auto gradient = first_other(first.gradients, second.gradients))
    return Difference{In::kGradient, false,
                      bits("the gradient of " + names.parameter(*gradient) + " of " + v) +
                          ", though its loss is the same, " + loss_text(first.loss)};
  if (const std::string name = other_sum(first.sums, second.sums); !name.empty())
    return Difference{In::kSum, false,
                      values("what " + v + " adds up as '" + name + "' is",
                             sum_text(first.sums, name), sum_text(second.sums, name))};
  const auto end = [](bool ends) { return ends ? "ends the run" : "goes on"; };
  if (first.ends != second.ends)
    return Difference{In::kEnd, false,
                      values("the share of " + v, end(first.ends), end(second.ends))};
  if (const auto row = first_other(first.rows, second.rows))
    return Difference{In::kRow, false, bits("what " + v + " carries as " + names.row(*row))};
  if (const auto buffer = first_other(first.buffers, second.buffers))
    return Difference{In::kBuffer, false,
                      bits("what " + v + " leaves in " + names.buffer(*buffer)) +
                          ", though its loss is the same, " + loss_text(first.loss)};
  return std::nullopt;
}

}  // namespace

ShareLoss loss_of(const coord::ShareRecord& record) {
  return {record.loss_sum / static_cast<double>(record.loss_count), record.loss_count};
}

std::optional<std::size_t> first_other(Words first, Words second) {
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
    if (first[i].load(std::memory_order_relaxed) != second[i].load(std::memory_order_relaxed))
      return i;
  return std::nullopt;
}

std::optional<std::pair<std::size_t, bool>> first_mode(Words first, Words second) {
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    const std::uint64_t trains = first[i].load(std::memory_order_relaxed);
    const std::uint64_t differ = trains ^ second[i].load(std::memory_order_relaxed);
    if (differ == 0) continue;
    const auto bit = static_cast<std::size_t>(std::countr_zero(differ));
    return std::pair{i * 64 + bit, (trains >> bit & 1) != 0};
  }
  return std::nullopt;
}

std::optional<Difference> first_difference(const ComputedShare& first, const ComputedShare& second,
                                           std::uint32_t virtual_worker,
                                           const NamesOfWords& names) {
  auto found = difference(first, second, virtual_worker, names);
  const auto mode = first_mode(first.training, second.training);
  if (!found || !mode) return found;
  const auto& [module, first_trains] = *mode;
  found->modes = true;
  found->text = names.module(module) + " is in eval() " +
                (first_trains ? second.where : first.where) + ", and trains " +
                (first_trains ? first.where : second.where) + "; " + found->text;
  return found;
}

}  // namespace lockstep::transaction
