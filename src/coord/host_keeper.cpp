#include "coord/host_keeper.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::coord {

HostKeeper::HostKeeper(const Config& config, Stay stay, const RunFacts& run, Turn& turn,
                       ToRun to_run)
    : config_(config),
      stay_(stay),
      run_(run),
      turn_(turn),
      to_run_(std::move(to_run)),
      spawner_(config, stay_, run, turn, workers_),
      donor_(config.timing.heal_retry),
      standstills_(config, stay_, run, turn, workers_, board_) {}

void HostKeeper::on(const event::Start&) {
  standstills_.begin_group();
  spawner_.start();
}

void HostKeeper::say(const Report& report) {
  if (!std::holds_alternative<report::Seen>(report)) ++reported_;
  to_run_(view(), report);
}

HostView HostKeeper::view() const {
  HostView view{.stay = stay_,
                .now = turn_.now,
                .reported = reported_,
                .obeyed = obeyed_,
                .signal = signal_to_all(),
                .goes_on = goes_on_without(nullptr),
                .stopped = stopped_,
                .waits = standstills_.waits(),
                .workers = {}};
  for (const Table& table : board_.tables)
    view.last_step = std::max(view.last_step, table.stop_after_step);
  for (const auto& [uid, worker] : workers_) view.workers.push_back(worker);
  return view;
}

// Nobody is started in the place of one that the run has not heard is lost, or of a host that is
// leaving the tables.
void HostKeeper::spawn_missing() {
  const bool takes_part = own().standing == Standing::kForming || own().standing == Standing::kHere;
  if (takes_part && own().heard == reported_) spawner_.start_missing();
}

void HostKeeper::on(const event::Forked& forked) {
  Worker* worker = workers_.find(forked.uid);
  if (worker == nullptr || worker->dismissed)
    turn_.act(action::Kill{forked.uid, SIGKILL}, "it is not wanted any more");
  if (worker == nullptr) return;
  worker->stage = Stage::kForked;
  worker->since = turn_.now;
}

void HostKeeper::on(const event::SpawnFailed& failed) {
  const std::optional<Worker> worker = workers_.take(failed.uid);
  if (!worker) return;
  spawner_.note_gone(*worker);
  if (run_.group == Group::kStarting)
    return say(report::MustEnd{exit_code(ErrorKind::kUnavailable),
                               "cannot start a worker: " + failed.reason});
  if (run_.group != Group::kRunning || worker->dismissed) return;
  report_lost(*worker, {Cause::kFailedSpawn, "not started: " + failed.reason});
}

void HostKeeper::on(const event::Hello& hello) {
  Worker* worker = workers_.find(hello.uid);
  if (worker == nullptr)
    return turn_.act(action::Kill{hello.uid, SIGKILL}, "it is not wanted any more");
  if (worker->stage < Stage::kGreeted) worker->stage = Stage::kGreeted;
  spawner_.note_hello();
}

void HostKeeper::on(const event::Described& described) {
  const Worker* worker = workers_.find(described.uid);
  if (worker == nullptr || worker->stage >= Stage::kAdmitted || worker->dismissed) return;
  say(report::Described{described, board_.rank_of(*worker)});
}

void HostKeeper::on(const event::Ready& ready) {
  Worker* worker = workers_.find(ready.uid);
  if (worker == nullptr || worker->stage != Stage::kAdmitted || worker->dismissed) return;
  worker->stage = Stage::kReady;
  // Of several hosts the run may have proposed it before this one hears of that.
  worker->proposed = worker->proposed || run_.hosts.size() > 1;
  spawner_.note_ready();
  worker->next = ready.next;
  worker->state_hash = ready.state_hash;
  worker->time = ready.time;
  worker->complete = ready.complete;
  say(report::Ready{ready.uid});
}

void HostKeeper::on(const event::Stopped& stopped) {
  Worker* worker = workers_.find(stopped.uid);
  if (worker != nullptr && !worker->stopped_at) worker->stopped_at = turn_.now;
}

void HostKeeper::on(const event::Continued& continued) {
  Worker* worker = workers_.find(continued.uid);
  if (worker == nullptr) return;
  const bool all_were = !goes_on_without(worker);
  worker->stopped_at.reset();
  worker->stop_told = false;
  if (!all_were) return;
  for (auto& [uid, other] : workers_)  // whoever continues all does it one by one
    if (other.stopped_at) other.stopped_at = turn_.now;
}

// Somebody else holds the state and runs. One that is to leave can stay as long as it is in the
// newest table (order::Keep).
bool HostKeeper::goes_on_without(const Worker* worker) const {
  const bool here = workers_.any([&](const Worker& other) {
    const bool can_stay = other.stage == Stage::kMember ||
                          (other.stage == Stage::kLeaving && !other.left &&
                           !board_.tables.empty() && board_.tables.back().has(other.uid));
    return &other != worker && can_stay && !other.stopped_at && !other.evicted;
  });
  return here || (worker != nullptr && run_.any([this](const HostFacts& host) {
           return host.stay.host != stay_.host && host.standing == Standing::kHere && host.goes_on;
         }));
}

void HostKeeper::on(const event::Progress& report) {
  const bool counts = run_.group == Group::kRunning || run_.group == Group::kStopping ||
                      run_.group == Group::kFinishing;
  if (!counts) return;
  note_members(report);
  for (const WorkerProgress& seen : report.workers)
    if (Worker* worker = workers_.find(seen.uid)) worker->seen = seen;
  note_signals();
  note_slots(report);
  say(report::Seen{});
  standstills_.see(report);
}

void HostKeeper::note_members(const event::Progress& report) {
  for (const Table& table : report.tables) {
    for (const Member& member : table.members) {
      Worker* worker = workers_.find(member.uid);
      if (worker == nullptr || worker->stage < Stage::kReady) continue;
      if (worker->stage == Stage::kReady) worker->stage = Stage::kMember;
      worker->first_txn = std::min(worker->first_txn.value_or(table.txn), table.txn);
    }
  }
  if (!report.tables.empty()) board_.tables = report.tables;
}

// Of several hosts another may yet publish a table by an older proposal, or, where the newest one
// leaves nobody, of those that it takes for alive.
bool HostKeeper::dead_are_out_of_tables() const {
  if (own().heard != reported_ || board_.tables.empty()) return false;
  const Table& newest = board_.tables.back();
  const auto is_dead = [this](WorkerUid uid) {
    return stay_of(uid) == stay_ && workers_.find(uid) == nullptr;
  };
  return newest.generation >= generation_ && std::ranges::none_of(proposed_, is_dead) &&
         std::ranges::none_of(newest.members, is_dead, &Member::uid);
}

void HostKeeper::note_slots(const event::Progress& report) {
  if (run_.hosts.size() > 1 && !dead_are_out_of_tables()) return;
  // The next table of whoever works may still list the dead; and they may have been ahead of all
  // others, and have published one themselves.
  std::uint64_t last_listed = 0;
  for (const Table& table : board_.tables) last_listed = std::max(last_listed, table.txn.value());
  for (const WorkerProgress& seen : report.workers) {
    const Worker* worker = workers_.find(seen.uid);
    if (worker != nullptr && worker->holds_state())
      last_listed = std::max({last_listed, seen.current_txn.value() + 1, seen.applied + 1});
  }
  std::optional<std::uint64_t> applied_by_all;
  for (const auto& [uid, worker] : workers_)
    if (worker.holds_state())
      applied_by_all = std::min(applied_by_all.value_or(worker.seen.applied), worker.seen.applied);
  if (applied_by_all) spawner_.note_slots(last_listed, *applied_by_all);
}

void HostKeeper::on(const event::Left& left) {
  Worker* worker = workers_.find(left.uid);
  if (worker == nullptr || !worker->may_leave) return;
  worker->left = true;
  worker->going_at = turn_.now;
}

void HostKeeper::on(const event::Closed& closed) {
  Worker* worker = workers_.find(closed.uid);
  if (worker != nullptr && !worker->closed_at) worker->closed_at = turn_.now;
}

void HostKeeper::on(const event::ZygoteLost& lost) {
  if (const auto report = spawner_.on(lost)) say(*report);
}

void HostKeeper::on(const event::Finished& finished) {
  if (workers_.find(finished.uid) == nullptr) return;
  finished_ = finished.uid;
  say(report::Finished{finished.uid});
  if (run_.group == Group::kFinishing) record_final();  // the other hosts have been before
}

void HostKeeper::record_final() {
  if (!finished_ || std::exchange(final_recorded_, true)) return;
  turn_.act(action::SetFinalRecorded{*finished_},
            "the last transaction is committed and the final checkpoint published");
}

void HostKeeper::append(Stay out) {
  board_.dead.push_back(death_of(out));
  turn_.act(action::AppendDead{death_of(out)}, "a round has taken its host out of the tables");
}

void HostKeeper::obey(std::uint64_t number, const Order& order) {
  obeyed_ = number;
  std::visit([this](const auto& what) { obey(what); }, order);
}

void HostKeeper::obey(const order::Admit& admit) {
  Worker* worker = workers_.find(admit.uid);
  if (worker == nullptr || worker->stage >= Stage::kAdmitted) return;
  worker->stage = Stage::kAdmitted;
  worker->newcomer = admit.newcomer;
  turn_.act(admit, admit.newcomer ? "it takes the state from a live peer" : "the group starts");
}

void HostKeeper::obey(const order::Refuse& refuse) {
  Worker* worker = workers_.find(refuse.uid);
  if (worker == nullptr) return;
  worker->refused = true;
  turn_.act(refuse, "it does not fit the run");
}

void HostKeeper::obey(const order::RecordStop& record) {
  turn_.act(record, "a table names the last step");
}

void HostKeeper::obey(const order::Begin&) {
  if (run_.hosts.size() > 1) ++stay_.count;
  workers_.clear();  // a late fork of the old zygote comes with the old board, and is killed at
                     // its first word
  board_ = {};
  proposed_.clear();
  serves_ = false;
  finished_.reset();
  final_recorded_ = stopped_ = false;
  donor_ = Donor(config_.timing.heal_retry);
  standstills_.begin_group();
  signal_at_.reset();
  spawner_.start_again();
}

void HostKeeper::obey(const order::FirstTable& first) {
  const Table& table = first.table;
  const bool writes = table.hosts.empty() || table.hosts.front().stay == stay_;
  if (writes) board_.tables = {table};
  for (const Member& seated : table.members) {
    Worker* member = workers_.find(seated.uid);
    if (member == nullptr || !writes) continue;  // of others the table is seen when it comes
    member->stage = Stage::kMember;
    member->first_txn = table.txn;
  }
  obey(order::Propose{table, "all workers are ready"});
  turn_.act(action::WriteTable{table, first.ran_ns, writes}, "all workers are ready");
}

void HostKeeper::obey(const order::Propose& propose) {
  proposed_.clear();
  generation_ = propose.wish.generation;
  for (const Member& member : propose.wish.members) {
    if (Worker* worker = workers_.find(member.uid)) worker->proposed = true;
    proposed_.push_back(member.uid);
  }
  turn_.act(action::WriteProposal{propose.wish}, propose.reason);
}

void HostKeeper::obey(const order::Shrink&) {
  const std::uint32_t target = own().target;
  for (auto it = workers_.rbegin(); it != workers_.rend() && workers_.active() > target; ++it)
    if (!it->second.leaving() && !it->second.holds_state())
      dismiss(it->second, "fewer workers are wanted");
  for (std::size_t i = proposed_.size(); i > 0 && workers_.active() > std::max(target, 1U); --i) {
    Worker* worker = workers_.find(proposed_[i - 1]);
    if (worker == nullptr || worker->stage != Stage::kMember) continue;
    worker->stage = Stage::kLeaving;
    worker->may_leave = true;
  }
}

void HostKeeper::obey(const order::Keep& keep) {
  Worker* worker = workers_.find(keep.uid);
  if (worker != nullptr && worker->stage == Stage::kLeaving && !worker->left)
    worker->stage = Stage::kMember;
}

void HostKeeper::evict(Worker& worker, Cause cause, std::string text) {
  if (worker.evicted || worker.dismissed) return;
  worker.evicted_for = cause;
  turn_.act(action::Kill{worker.uid, SIGKILL}, board_.name(worker) + ": " + text);
  worker.evicted = std::move(text);
}

void HostKeeper::dismiss(Worker& worker, const char* why) {
  worker.dismissed = true;
  worker.going_at = turn_.now;
  if (config_.attached && worker.stage > Stage::kSpawning)
    return turn_.act(action::End{worker.uid, run_.stop_code, why}, why);
  turn_.act(action::Kill{worker.uid, SIGKILL}, why);
}

}  // namespace lockstep::coord
