// As many workers as are asked for while the run is on.
#include <algorithm>
#include <utility>

#include "coord/run_keeper.h"

namespace lockstep::coord {

void RunKeeper::on(const event::Scale& scale) {
  const auto refusal = refuse(scale.workers);
  if (refusal) {
    turn_.act(action::Reply{scale.request, false, refusal->message, refusal->kind}, "scale");
    return;
  }
  const std::uint32_t before = facts_.target();
  if (!scaled_from_) scaled_from_ = before;
  const std::vector<std::uint32_t> wanted = shares(scale.workers);
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    facts_.hosts[h].wanted = facts_.hosts[h].target = wanted[h];
  tell_all(order::Shrink{});
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
  std::size_t nodes = 0;
  for (const HostFacts& host : facts_.hosts) nodes += host.standing == Standing::kOut ? 0 : 1;
  if (facts_.group != Group::kRunning || nodes == 0)
    return Error{ErrorKind::kUnavailable,
                 "the run is not training yet; try again when it has begun a step"};
  if (is_several() && workers < nodes)
    return Error{ErrorKind::kUsage, "cannot scale to " + count + " workers: each of " +
                                        std::to_string(nodes) + " nodes keeps one"};
  if (workers == 0)
    return Error{ErrorKind::kUsage,
                 "cannot scale to 0 workers; end the run with SIGTERM to the launcher instead"};
  if (workers > facts_.virtual_workers)
    return Error{ErrorKind::kUsage,
                 "cannot scale to " + count + " workers: the run has " +
                     std::to_string(facts_.virtual_workers) +
                     " virtual workers (--virtual-workers), and each worker needs at least one"};
  if (workers > facts_.asked() && config_.attached)
    return Error{ErrorKind::kUsage,
                 "cannot scale to " + count + " workers: the run was started by hand for " +
                     std::to_string(facts_.asked()) + ", and there are no other ranks"};
  const std::vector<std::uint32_t> wanted = shares(workers);
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    if (wanted[h] > kMaxWorkers)
      return Error{ErrorKind::kUsage, "cannot scale to " + count + " workers: the limit is " +
                                          std::to_string(kMaxWorkers) +
                                          (is_several() ? " on each node" : "")};
    if (wanted[h] > facts_.hosts[h].target && hosts_[h].cannot_grow)
      return Error{ErrorKind::kUsage,
                   "cannot grow: the program ended before lockstep::init() too often"};
  }
  return std::nullopt;
}

// Of each host.
std::vector<std::uint32_t> RunKeeper::shares(std::uint32_t workers) const {
  std::vector<std::uint32_t> asked;
  for (const HostFacts& host : facts_.hosts)
    if (host.standing != Standing::kOut) asked.push_back(host.asked);
  const std::vector<std::uint32_t> given = shares_of(workers, asked);
  std::vector<std::uint32_t> shares;
  std::size_t next = 0;
  for (const HostFacts& host : facts_.hosts)
    shares.push_back(host.standing == Standing::kOut ? 0 : given[next++]);
  return shares;
}

// `members`: those that are to stay. Done: as many as are wanted are in a table, and whoever was to
// leave is gone.
void RunKeeper::tell_scaled(std::uint32_t members) {
  const bool leaving =
      hosts_.any([](const WorkerView& worker) { return worker.stage == Stage::kLeaving; });
  if (!scaled_from_ || members != facts_.target() || leaving) return;
  const std::uint32_t before = *std::exchange(scaled_from_, std::nullopt);
  if (before == facts_.target()) return;
  turn_.print(action::Severity::kInfo, std::string("the group has ") +
                                           (before < facts_.target() ? "grown" : "shrunk") +
                                           " from " + std::to_string(before) + " to " +
                                           std::to_string(facts_.target()) + " workers");
}

}  // namespace lockstep::coord
