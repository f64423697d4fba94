// A run's first table of each start, and its proposals.
#include <algorithm>
#include <utility>

#include "coord/run_keeper.h"
#include "coord/words.h"

namespace lockstep::coord {

bool RunKeeper::anybody_has_come() const {
  return workers_.any([](const Worker& worker) { return worker.stage > Stage::kSpawning; });
}

std::string RunKeeper::missing_ranks() const {
  if (!config_.attached) return "";
  std::string ranks;
  for (const auto& [uid, worker] : workers_)
    if (worker.stage == Stage::kSpawning)
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(worker.seat);
  if (ranks.empty()) return "";
  return ": of " + std::to_string(config_.workers) + " nobody has come as rank " + ranks +
         ". Start each rank with the same address and number of ranks";
}

// Who is to be in the first table. A place for a rank that is started by hand and has not come is
// not needed where nothing is left to run: the others of its run may have ended long ago.
std::vector<const Worker*> RunKeeper::at_start() const {
  const bool complete = workers_.any([](const Worker& worker) { return worker.complete; });
  std::vector<const Worker*> found;
  for (const auto& [uid, worker] : workers_) {
    const bool is_not_needed = config_.attached && worker.stage == Stage::kSpawning && complete;
    if (!worker.dismissed && !is_not_needed) found.push_back(&worker);
  }
  return found;
}

bool RunKeeper::agree(const Worker& first, const Worker& other) {
  const std::string one = worker_name(first.seat, first.uid.value());
  const std::string another = worker_name(other.seat, other.uid.value());
  std::string difference;
  if (other.next != first.next)
    difference = one + " is ready for transaction " + std::to_string(first.next.value()) + ", " +
                 another + " for " + std::to_string(other.next.value()) +
                 ": they loaded different checkpoints";
  else if (other.state_hash != first.state_hash)
    difference = one + " and " + another +
                 " start from different states (weights, optimizer state with its learning rate, "
                 "texts): nothing in it may depend on the rank";
  else if (other.time != first.time)
    difference = one + " and " + another +
                 " start with different time limits, or with different words of when an earlier "
                 "one was reached: give all ranks the same options, and start again";
  // As where descriptions or steps differ.
  if (!difference.empty()) stop_now(exit_code(ErrorKind::kUsage), difference);
  return difference.empty();
}

void RunKeeper::write_first_table() {
  if (workers_.active() == 0 || workers_.active() < facts_.target) return;
  std::vector<const Worker*> seated = at_start();
  if (seated.empty()) return;
  for (const Worker* worker : seated)
    if (worker->stage != Stage::kReady || !agree(*seated[0], *worker)) return;
  std::sort(seated.begin(), seated.end(),
            [](const Worker* a, const Worker* b) { return a->seat < b->seat; });
  const Worker& first = *seated[0];
  const RunTime time = first.time;
  Table table{first.next, Generation(++generation_), kNone, {}, time.stop_after_step};
  for (const Worker* worker : seated) {
    table.members.push_back({worker->uid, worker->slot});
    order_.push_back(worker->uid);
  }
  facts_.group = Group::kRunning;
  tell_policy();
  applied_ = table.txn.value();
  furthest_ = std::max(furthest_, applied_);
  proposal_ = table;
  clock_.begin(time, turn_.now);
  to_hosts_(order::FirstTable{table, clock_.ran(turn_.now)});
}

void RunKeeper::propose() {
  Table wish;
  wish.flags = facts_.in_order ? kStop : clock_.is_up() ? kTimeIsUp : kNone;
  std::erase_if(order_, [&](WorkerUid uid) {
    const Worker* worker = workers_.find(uid);
    return worker == nullptr || worker->leaving();
  });
  for (const WorkerUid uid : order_) wish.members.push_back({uid, workers_.at(uid).slot});
  if (wish.members.empty() ||
      (proposal_ && wish.members == proposal_->members && wish.flags == proposal_->flags))
    return;
  wish.generation = Generation(++generation_);
  proposal_ = wish;
  to_hosts_(
      order::Propose{wish, wish.flags == kStop ? "the run is to stop in order"
                           : wish.flags == kTimeIsUp && clock_.last_step() == 0
                               ? "the time limit is reached: the next table names the last step"
                               : "the members wanted have changed"});
}

// What will be done about failures: once, before the first.
void RunKeeper::tell_policy() {
  if (std::exchange(policy_told_, true) || config_.asked_for_help) return;
  if (config_.attached)
    return turn_.print(
        action::Severity::kInfo,
        std::to_string(config_.workers) + " workers, started by hand; " +
            (facts_.elastic ? "the others go on without one that dies, and the same command "
                              "joins them again"
                            : "when one dies, all are ended"));
  const std::string first =
      facts_.elastic
          ? "replacements of those that die: " + std::to_string(config_.max_replacements) +
                " (--max-replacements)"
          : "when one dies, all are stopped";
  turn_.print(action::Severity::kInfo,
              policy(static_cast<int>(config_.workers), first, config_.max_restarts));
}

}  // namespace lockstep::coord
