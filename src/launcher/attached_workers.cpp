// Workers that were started by hand: they come to a place that is open, and are watched by what the
// system tells of processes that are not our children.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "coord/channel.h"
#include "launcher/agent.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;

// A look opens a file for each worker; --stop-grace is far longer.
constexpr auto kLookPause = 20ms;

bool has_ended(const UniqueFd& process) {
  pollfd entry{process.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// A pipe or terminal that takes nothing now: whoever writes there waits.
bool is_full(const UniqueFd& output) {
  pollfd entry{output.get(), POLLOUT, 0};
  return output && ::poll(&entry, 1, 0) == 0;
}

}  // namespace

Result<bool> Agent::seat(Arrival& arrival) {
  if (const auto place = places_.find(arrival.rank); place != places_.end()) {
    const coord::action::Spawn spawn = place->second;
    LOCKSTEP_TRY(take_in(spawn, arrival));
    return true;
  }
  Worker* const owner = workers_.of_rank(arrival.rank);
  const std::string rank = "rank " + std::to_string(arrival.rank.value());
  if (owner != nullptr) {
    if (has_ended(owner->process)) {  // and its end is not read yet
      process_ended(owner->uid);
      return false;
    }
    if (owner->gone_by || owner->end_by) return false;
    return Error{ErrorKind::kUsage,
                 rank + " of the run at " + attached_->address() + " is process " +
                     std::to_string(owner->pid) + ", which is alive" +
                     (owner->stopped ? " and stopped" : "") +
                     ": each rank is one process. Give this one another rank, or end that one"};
  }
  const coord::RunStatus status = head_->status();
  if (status.state != "starting" && status.state != "running")
    return Error{ErrorKind::kUnavailable, "the run at " + attached_->address() +
                                              " is about to end (" + std::string(status.state) +
                                              "); start all ranks again for another one"};
  if (arrival.rank.value() < status.target_world_size) return false;  // any moment
  return Error{ErrorKind::kUnavailable,
               "the run at " + attached_->address() + " was scaled to " +
                   std::to_string(status.target_world_size) + " workers, and " + rank +
                   " is none of them ('lockstep scale' takes it in again)"};
}

Status Agent::take_in(const coord::action::Spawn& spawn, Arrival& arrival) {
  LOCKSTEP_ASSIGN(auto lifeline, coord::make_channel());
  const WorkerUid uid = spawn.uid;
  const Variables variables = worker_variables(
      options_, spawn, place_on_one_host(options_, spawn, options_.master_port, false), "");
  const int descriptors[] = {linked_->board_fd(), lifeline.second.get()};
  LOCKSTEP_TRY(coord::send(arrival.control.get(), fork_request(spawn, options_.run_id, variables),
                           Deadline::in(0s), descriptors));
  places_.erase(arrival.rank);
  if (spawn.rank == Rank(0)) console_.move_to(arrival.out.get(), arrival.err.get());
  Worker& worker = workers_.add(spawn);
  worker.pid = arrival.pid;
  worker.control = std::move(arrival.control);
  worker.process = std::move(arrival.process);
  worker.lifeline = std::move(lifeline.first);
  worker.out = std::move(arrival.out);
  worker.err = std::move(arrival.err);
  feed(event::Forked{uid, arrival.pid});
  LOCKSTEP_TRY(loop_.add(worker.control.get(), [this, uid] { linked_->read_worker(uid); }));
  return loop_.add(worker.process.get(), [this, uid] { process_ended(uid); });
}

// True: nobody had come.
bool Agent::close_place(WorkerUid uid) {
  return std::erase_if(places_, [&](const auto& entry) { return entry.second.uid == uid; }) != 0;
}

void Agent::process_ended(WorkerUid uid) {
  Worker* worker = workers_.find(uid);
  if (worker == nullptr) return;
  loop_.remove(worker->process.get());
  linked_->read_worker(uid);  // its last report
  coord::ExitStatus status = worker->last_report.value_or(coord::ExitStatus{});
  if (worker->gone_by) status = {-1, SIGKILL};
  bury(*worker, status);
  linked_->forget_descriptions();
}

// What a child would tell of by SIGCHLD.
void Agent::watch_attached() {
  if (!next_look_.passed()) return;
  next_look_ = Deadline::in(kLookPause);
  if (arrivals_) arrivals_->look();
  if (!starter_gone_ && (!attached_->starter || has_ended(attached_->starter))) {
    starter_gone_ = true;
    feed(event::StarterGone{});
  }
  std::vector<std::pair<WorkerUid, bool>> changes;
  for (auto& [uid, worker] : workers_) {
    if (worker.end_by && worker.end_by->passed() && !worker.gone_by) kill_worker(worker, SIGKILL);
    const bool stopped = is_stopped(worker.pid);
    if (std::exchange(worker.stopped, stopped) != stopped) changes.emplace_back(uid, stopped);
  }
  for (const auto& [uid, stopped] : changes)
    stopped ? feed(event::Stopped{uid}) : feed(event::Continued{uid});
}

std::optional<Console::Target> Agent::waits_for_reader(const Worker& worker) const {
  if (!attached_) return logs_->waits_for_reader(worker.local_rank.value());
  if (is_full(worker.out)) return Console::kOut;
  if (is_full(worker.err)) return Console::kErr;
  return std::nullopt;
}

}  // namespace lockstep::launcher
