// As many workers as are asked for while the run is on.
#include <utility>

#include "coord/run_keeper.h"

namespace lockstep::coord {

void RunKeeper::on(const event::Scale& scale) {
  const auto refusal = refuse(scale.workers);
  if (refusal) {
    turn_.act(action::Reply{scale.request, false, refusal->message, refusal->kind}, "scale");
    return;
  }
  const std::uint32_t before = facts_.target;
  if (!scaled_from_) scaled_from_ = before;
  facts_.wanted = facts_.target = scale.workers;
  to_hosts_(order::Shrink{});
  // Then the highest ranks.
  for (auto it = order_.rbegin(); it != order_.rend() && workers_.active() > facts_.target; ++it)
    if (workers_.at(*it).stage == Stage::kMember) to_hosts_(order::Leave{*it});
  turn_.act(action::Reply{scale.request, true,
                          "from " + std::to_string(before) + " to " +
                              std::to_string(scale.workers) + " workers",
                          ErrorKind::kUsage},
            "scale");
}

std::optional<Error> RunKeeper::refuse(std::uint32_t workers) const {
  const std::string count = std::to_string(workers);
  if (!facts_.elastic)
    return Error{ErrorKind::kUsage,
                 "this program cannot be scaled: it does not run its steps through Lockstep "
                 "(step.run or Trainer)"};
  if (facts_.is_ending())
    return Error{ErrorKind::kAborted,
                 "the run is about to end: it takes no more workers and gives none away"};
  if (facts_.group != Group::kRunning)
    return Error{ErrorKind::kUnavailable,
                 "the run is not training yet; try again when it has begun a step"};
  if (workers == 0)
    return Error{ErrorKind::kUsage,
                 "cannot scale to 0 workers; end the run with SIGTERM to the launcher instead"};
  if (workers > facts_.virtual_workers)
    return Error{ErrorKind::kUsage,
                 "cannot scale to " + count + " workers: the run has " +
                     std::to_string(facts_.virtual_workers) +
                     " virtual workers (--virtual-workers), and each worker needs at least one"};
  if (workers > kMaxWorkers)
    return Error{ErrorKind::kUsage, "cannot scale to " + count + " workers: the limit is " +
                                        std::to_string(kMaxWorkers)};
  if (workers > config_.workers && config_.attached)
    return Error{ErrorKind::kUsage,
                 "cannot scale to " + count + " workers: the run was started by hand for " +
                     std::to_string(config_.workers) + ", and there are no other ranks"};
  if (workers > facts_.target && cannot_grow_)
    return Error{ErrorKind::kUsage,
                 "cannot grow: the program ended before lockstep::init() too often"};
  return std::nullopt;
}

// `members`: those that are to stay. Done: as many as are wanted are in a table, and whoever was to
// leave is gone.
void RunKeeper::tell_scaled(std::uint32_t members) {
  const bool leaving =
      workers_.any([](const Worker& worker) { return worker.stage == Stage::kLeaving; });
  if (!scaled_from_ || members != facts_.target || leaving) return;
  const std::uint32_t before = *std::exchange(scaled_from_, std::nullopt);
  if (before == facts_.target) return;
  turn_.print(action::Severity::kInfo, std::string("the group has ") +
                                           (before < facts_.target ? "grown" : "shrunk") +
                                           " from " + std::to_string(before) + " to " +
                                           std::to_string(facts_.target) + " workers");
}

}  // namespace lockstep::coord
