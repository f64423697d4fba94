// The agent does what the coordinator says.
#include <chrono>
#include <csignal>

#include "base/log.h"
#include "coord/channel.h"
#include "launcher/agent.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace action = coord::action;
namespace event = coord::event;
namespace message = coord::message;

}  // namespace

void Agent::obey(const coord::Action& action) {
  std::visit(
      [this](const auto& what) {
        if constexpr (requires { linked_->act(what); })
          linked_->act(what);  // of linked programs alone
        else
          act(what);
      },
      action.what);
}

// In its log folder, or in one of ours.
void Agent::give_error_file(Worker& worker, const std::string& folder) const {
  worker.error_file_stays = !folder.empty();
  if (worker.error_file_stays) worker.error_file = folder + "/error.json";
  if (worker.error_file_stays || !error_files_) return;
  auto name = error_files_->name_for(attempt_, worker.local_rank.value());
  if (name.ok()) worker.error_file = *std::move(name);
}

Place Agent::place_of(const action::Spawn& spawn) const {
  if (nodes_) return nodes_->place();
  Place place = place_on_one_host(options_, spawn, master_->number(), master_->serves_store());
  if (!hosts_) return place;
  place.local_world_size = options_.nproc_per_node;
  place.group_rank = hosts_->self();
  place.group_world_size = options_.nodes.nnodes;
  return place;
}

void Agent::act(const action::Spawn& spawn) {
  if (attached_) {
    places_.insert_or_assign(spawn.rank, spawn);
    return;
  }
  auto outputs = logs_->open_worker(attempt_, spawn.local_rank.value(), spawn.rank.value());
  if (!outputs.ok()) return feed(event::SpawnFailed{spawn.uid, outputs.error().message});
  Worker& worker = workers_.add(spawn);
  give_error_file(worker, outputs->folder);
  const Place place = place_of(spawn);
  if (nodes_) spawner_.on_node(nodes_->lock(), nodes_->free_slot());
  const Variables variables = worker_variables(options_, spawn, place, worker.error_file);
  UniqueFd control = spawner_.start(spawn, variables, linked_ ? linked_->board_fd() : -1, *outputs);
  const WorkerUid uid = spawn.uid;
  Worker* started = workers_.find(uid);  // starting may tell of ends, and entries go with them
  if (started == nullptr) return;
  if (!control) {
    if (started->pid < 0) workers_.erase(uid);  // not started; plain programs have no socket
    return;
  }
  started->control = std::move(control);
  if (auto added = loop_.add(started->control.get(), [this, uid] { linked_->read_worker(uid); });
      !added.ok())
    log_error(added.error().message);
}

void Agent::act(const action::Kill& kill) {
  if (close_place(kill.uid)) return feed(event::SpawnFailed{kill.uid, "nobody has come"});
  Worker* worker = workers_.find(kill.uid);
  if (worker == nullptr) return;
  ending_attempt_ = true;
  if (typed_.take_sent(kill.signal)) return;
  if (worker->pid > 0)
    kill_worker(*worker, kill.signal);
  else
    worker->pending_kill = kill.signal;
  // A stopped process takes no TERM until it goes on.
  if (worker->pid > 0 && kill.signal != SIGKILL) kill_worker(*worker, SIGCONT);
}

void Agent::act(const action::End& end) {
  Worker* worker = workers_.find(end.uid);
  if (worker == nullptr) return;
  // Where rank 0 is, errors of the run are told already.
  std::string text = end.text;
  if (end.code != 0) text = worker->rank == Rank(0) ? "" : "the run ends: " + end.text;
  if (worker->rank == Rank(0)) console_.settle();  // its output is where we have told them
  (void)coord::send(worker->lifeline.get(), message::End{end.code, text}, Deadline::in(0s)).ok();
  if (!worker->end_by) worker->end_by = Deadline::in(2s);
}

void Agent::act(const action::RestartGroup& restart) {
  attempt_ = restart.restart_count;
  ending_attempt_ = false;
  failures_.clear();
  errors_told_.clear();
  helpers_.left_by_all([this](pid_t child) { return keeps(child); });
  if (linked_) linked_->renew_board();
  if (hosts_) hosts_->renew_board();
  if (master_ && !linked_) master_->begin_anew();
}

void Agent::act(const action::RestartZygote&) {
  // Workers that the old one has not forked are asked for anew, under other uids.
  for (Worker* worker : workers_.unforked()) {
    if (worker->control) loop_.remove(worker->control.get());
    workers_.erase(worker->uid);
  }
  spawner_.restart_zygote();
}

void Agent::act(const action::Print& print) {
  const LogLevel level = print.severity == action::Severity::kError     ? LogLevel::kError
                         : print.severity == action::Severity::kWarning ? LogLevel::kWarning
                                                                        : LogLevel::kInfo;
  log(level, print.text);
  if (level == LogLevel::kError) errors_told_ += print.text + "\n";
}

void Agent::act(const action::Stop& stop) { exit_code_ = stop.exit_code; }

}  // namespace lockstep::launcher
