#include "launcher/workers.h"

#include <algorithm>

namespace lockstep::launcher {
namespace {

template <class Map, class Condition>
Worker* first_of(Map& workers, Condition condition) {
  const auto found =
      std::ranges::find_if(workers, [&](const auto& entry) { return condition(entry.second); });
  return found == workers.end() ? nullptr : &found->second;
}

}  // namespace

Worker& Workers::add(const coord::action::Spawn& spawn) {
  Worker& worker = workers_[spawn.uid];
  worker.uid = spawn.uid;
  worker.slot = spawn.slot;
  worker.rank = spawn.rank;
  worker.local_rank = spawn.local_rank;
  return worker;
}

Worker* Workers::find(WorkerUid uid) {
  const auto found = workers_.find(uid);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* Workers::of_process(pid_t pid) {
  return first_of(workers_, [=](const Worker& worker) { return worker.pid == pid; });
}

Worker* Workers::of_rank(Rank rank) {
  return first_of(workers_, [=](const Worker& worker) { return worker.rank == rank; });
}

std::vector<Worker*> Workers::unforked() {
  std::vector<Worker*> found;
  for (auto& [uid, worker] : workers_)
    if (worker.pid < 0) found.push_back(&worker);
  return found;
}

std::vector<coord::Member> Workers::members(const Worker* dead) const {
  std::vector<coord::Member> members;
  for (const auto& [uid, worker] : workers_)
    if (worker.pid > 0 || &worker == dead) members.push_back({uid, worker.slot});
  return members;
}

}  // namespace lockstep::launcher
