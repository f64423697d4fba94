#include "train/given_optimizers.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/hash.h"

namespace lockstep::training {

std::uint64_t set_of(const OptimizerList& optimizers) {
  std::uint64_t set = 0;
  for (const std::size_t number : optimizers)
    if (number < kMostOptimizers) set |= std::uint64_t{1} << number;
  return set;
}

void write_to(coord::ShareRecord& record, const OptimizerList& optimizers) {
  record.optimizers = set_of(optimizers);
  std::ranges::transform(optimizers, record.order,
                         [](std::size_t number) { return static_cast<std::uint8_t>(number); });
}

OptimizerList optimizers_of(const coord::ShareRecord& record) {
  return {record.order, record.order + std::popcount(record.optimizers)};
}

std::uint64_t rates_hash(const TrainState& state, const OptimizerList& optimizers) {
  std::vector<std::uint64_t> hashes;
  for (const std::size_t number : optimizers)
    hashes.push_back(state.optimizers()[number]->rates_hash());
  return hashes.size() == 1 ? hashes.front() : xxh3(std::as_bytes(std::span(hashes)));
}

std::string names_of(const TrainState& state, const OptimizerList& optimizers) {
  std::string names;
  for (const std::size_t number : optimizers)
    names += (names.empty() ? "'" : ", '") +
             (number < state.optimizers().size() ? state.optimizer_name(number)
                                                 : "number " + std::to_string(number)) +
             "'";
  return names;
}

Status same_optimizers(const TrainState& state, const std::string& step, const GivenOptimizers& a,
                       const GivenOptimizers& b) {
  if (a.optimizers == b.optimizers) return {};
  const auto given = [&](const GivenOptimizers& those) {
    return names_of(state, those.optimizers) + " in " + those.where;
  };
  return Error{ErrorKind::kUsage,
               step + ": run() was given " + given(a) + ", and " + given(b) +
                   ". Which optimizer a step has is a function of step.global_step(), not of how "
                   "often the loop has gone round: a replacement comes in at the loop's top, at "
                   "any step"};
}

}  // namespace lockstep::training
