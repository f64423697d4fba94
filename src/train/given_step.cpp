#include "train/given_step.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "train/lines.h"

namespace lockstep::training {

std::vector<OptimizerList> GivenStep::choices() const {
  std::vector<OptimizerList> choices;
  if (state_.optimizers().size() > 1)
    for (const GivenUpdate& update : updates_) choices.push_back(update.optimizers);
  return choices;
}

Status GivenStep::check(std::int64_t global_step) const {
  const auto wanted = static_cast<std::size_t>(spec_.plan.updates_per_step);
  if (updates_.size() == wanted) return {};
  return misuse("step " + std::to_string(global_step) + ": run() was given " +
                std::to_string(updates_.size()) + (updates_.size() == 1 ? " update" : " updates") +
                ", and RunOptions::updates_per_step is " + std::to_string(wanted) +
                ": each step has so many. An update in which all losses are undefined tensors is "
                "left out");
}

Status GivenStep::check_as_before(Txn txn, const std::vector<OptimizerList>& then) const {
  for (std::size_t u = 0; u < std::min(then.size(), updates_.size()); ++u)
    LOCKSTEP_TRY(same_optimizers(state_, step_in_words(spec_.plan, Txn(txn.value() + u)),
                                 {then[u], "the start before"},
                                 {updates_[u].optimizers, "this one"}));
  return {};
}

}  // namespace lockstep::training
