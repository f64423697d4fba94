// Deaths: what they cost, and which rung of the ladder mends them.
#include <algorithm>

#include "base/signal_name.h"
#include "coord/run_keeper.h"
#include "coord/words.h"

namespace lockstep::coord {

void RunKeeper::hear(std::size_t host, const report::Lost& lost) {
  if (!works()) return;
  const WorkerView& worker = lost.worker;
  note_member(host, worker);
  hosts_[host].dead_applied = std::max(hosts_[host].dead_applied, worker.seen.applied);
  std::erase(hosts_[host].ranks, worker.uid);
  const Death& death = lost.death;
  const std::string name = worker_name(lost.rank.value(), worker.uid.value());
  const std::string error = worker.failure ? worker.failure->message : "";  // told already
  const bool from_outside = death.cause == Cause::kFromOutside;
  const std::optional<Txn> interrupted = interrupted_by(worker);
  IncidentBook::Entry& incident =
      incidents_.add({worker.uid, lost.rank, death.text, error, death.ended_well}, interrupted,
                     from_outside, worker.seen.fault_fired_ns, turn_.now);
  // The shares that it owned count a crash each: one that crashes all its owners is hopeless.
  if (lost.shares) hopeless_ = crashes_.add(worker.seen.current_txn, *lost.shares) || hopeless_;
  const std::string died =
      name + " died (" + death.text + ")" +
      (ended_early_.empty() ? "" : "; before it, with exit 0, ended " + ended_early_);
  if (!facts_.elastic) {
    // Of a loop over a process group. Whoever ended the worker by a signal that asks for an end may
    // be about to send it to the launcher, too; what the others die of meanwhile is the first one's
    // death.
    if (waiting_restart_) return;
    if (!death.by_stop_signal || config_.attached) return restart_or_stop(died, from_outside);
    waiting_restart_ = WaitingRestart{turn_.now, died, from_outside};
    return;
  }
  if (facts_.group == Group::kStarting && death.cause == Cause::kOwnDoing)
    return restart_or_stop(died, from_outside);
  const bool last = holds_state(worker) && !newcomer_may_hold_state() &&
                    !hosts_.any([&](const WorkerView& other) { return holds_state(other); });
  const bool missed = hosts_[host].view.active() < facts_.hosts[host].target;
  const std::string then = last     ? "nobody else holds the state"
                           : missed ? replace(host, worker.refused, lost.outlook, incident)
                                    : "the others go on";
  news_.tell_death(name, worker, death, interrupted, then);
  if (!interrupted)
    turn_.act(action::RecordIncident{incident.report}, "a worker died outside the group's work");
}

// A death from outside, but one that loses nothing.
void RunKeeper::hear(std::size_t host, const report::LetGo& gone) {
  if (!works()) return;
  const WorkerView& worker = gone.worker;
  note_member(host, worker);
  std::erase(hosts_[host].ranks, worker.uid);
  const std::string signal = signal_name(worker.seen.signal);
  IncidentBook::Entry& incident =
      incidents_.add({worker.uid, gone.rank, signal}, std::nullopt, true, 0, turn_.now);
  incident.report.txn = std::max(incident.report.txn, worker.seen.current_txn);
  const std::string then = hosts_[host].view.active() < facts_.hosts[host].target
                               ? replace(host, worker.refused, gone.outlook, incident)
                               : "the others go on";
  turn_.print(action::Severity::kWarning, worker_name(gone.rank.value(), worker.uid.value()) +
                                              " got " + signal + " and leaves at the next step; " +
                                              then);
  turn_.act(action::RecordIncident{incident.report}, "a signal takes a worker out");
}

// The newest transaction that somebody works on; none if it had no part in the work.
std::optional<Txn> RunKeeper::interrupted_by(const WorkerView& worker) const {
  if (!worker.holds_state() && !worker.proposed) return std::nullopt;
  Txn newest = worker.seen.current_txn;
  hosts_.each([&](const WorkerView& other) {
    if (holds_state(other)) newest = std::max(newest, other.seen.current_txn);
  });
  return newest;
}

// Charges the budget for a replacement, which the host then starts; or does without. Returns what
// then happens, in words.
std::string RunKeeper::replace(std::size_t host, bool is_refused, const report::Outlook& next,
                               IncidentBook::Entry& incident) {
  std::string without = "the others go on without it";
  if (config_.attached) {
    incident.replaced = next.has_room;
    if (next.has_room) return "the others go on, and the same command joins them again";
    facts_.hosts[host].want_one_less();
    return without;
  }
  // One charge per incident; but each try to start somebody is one, or they would never end.
  const bool charged = incident.replaced && !next.in_vain;
  incident.replaced =
      next.again && (charged || (next.has_room && (next.free || replacements_.charge(furthest_))));
  const std::string most = std::to_string(config_.max_replacements);
  if (incident.replaced)
    return "a replacement is started (" + std::to_string(replacements_.left(furthest_)) + " of " +
           most + " left)";
  facts_.hosts[host].want_one_less();
  if (is_refused) return without;
  if (next.again) return without + ": --max-replacements " + most + " is spent";
  return without + ": " + std::to_string(next.failed) + " tries in a row have failed";
}

// Rung 1 needs somebody who can finish the transaction that the run is in.
void RunKeeper::check_survivors() {
  if (hopeless_)
    return restart_or_stop(
        why_none_is_left(
            incidents_.newest(),
            "a share of one step crashed " + std::to_string(CrashLedger::kMostOwners) + " workers"),
        false);
  if (!anybody_holds_state()) return none_holds_state();
  if (!hosts_.any([this](const WorkerView& worker) {
        return holds_state(worker) && worker.stage != Stage::kLeaving;
      }))
    keep_leavers();
  check_orphans();
}

bool RunKeeper::anybody_holds_state() {
  const bool any = hosts_.any([this](const WorkerView& worker) { return holds_state(worker); });
  if (any) none_since_.reset();
  return any;
}

// Of several hosts a newcomer may be in a table already, and its host has not told of that yet.
bool RunKeeper::newcomer_may_hold_state() const {
  return is_several() && hosts_.any([this](const WorkerView& worker) {
    return worker.stage == Stage::kReady && !worker.dismissed && proposal_ &&
           proposal_->has(worker.uid);
  });
}

void RunKeeper::none_holds_state() {
  if (!newcomer_may_hold_state()) return give_up();
  if (!none_since_) none_since_ = turn_.now;
}

void RunKeeper::give_up() {
  const char* reason = "no worker that holds the state is alive";
  if (facts_.in_order) return give_leavers_up(reason);
  restart_or_stop(why_none_is_left(incidents_.newest(), reason), blame_outside());
}

// What has been applied on a host that is not lost is whole, or will be, on each board.
void RunKeeper::check_orphans() {
  std::uint64_t applied = first_txn_;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (facts_.hosts[h].standing != Standing::kOut) applied = std::max(applied, hosts_[h].applied);
  for (std::size_t h = 0; h < hosts_.size(); ++h) check_orphans(h, applied);
}

void RunKeeper::check_orphans(std::size_t host, std::uint64_t applied) {
  RunHost& known = hosts_[host];
  bool any = false, able = false;
  for (const WorkerView& worker : known.view.workers) {
    if (!holds_state(worker)) continue;
    any = true;
    able = able || worker.first_txn.value_or(Txn(0)).value() <= applied;
  }
  if (able || !any || facts_.hosts[host].standing != Standing::kHere) {
    known.orphaned_since.reset();
  } else if (!known.orphaned_since) {
    known.orphaned_since = turn_.now;  // it may be whole: then the newcomers apply it any moment
  }
}

// Those who were to leave are the last ones who hold the state: as many as are wanted stay, in the
// place of newcomers.
void RunKeeper::keep_leavers() {
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    if (facts_.hosts[h].standing != Standing::kHere || !hosts_[h].is_current()) continue;
    std::vector<WorkerUid> kept;
    for (const WorkerView& worker : hosts_[h].view.workers)
      if (worker.stage == Stage::kLeaving && !worker.dismissed && !worker.left &&
          kept.size() < std::max(facts_.hosts[h].target, 1U))
        kept.push_back(worker.uid);
    for (const WorkerUid uid : kept) {
      tell(h, order::Keep{uid});
      std::vector<WorkerUid>& ranks = hosts_[h].ranks;
      std::erase(ranks, uid);  // it may not have left the proposal yet
      ranks.insert(ranks.begin(), uid);
    }
    tell(h, order::Shrink{});
  }
}

void RunKeeper::restart_or_stop(const std::string& reason, bool from_outside) {
  waiting_restart_.reset();
  std::optional<RestartBudget::Place> place;
  if (facts_.elastic)
    place = {furthest_, applied_,
             from_outside ? std::string() : own_error(incidents_.newest(), reason)};
  const auto verdict = restarts_.charge(place);
  facts_.restarts = restarts_.used();
  if (!from_outside) own_doing_at_ = furthest_;
  news_.drop_held();
  const bool allowed = verdict == RestartBudget::Verdict::kAllowed;
  record(incidents_.close_all(allowed ? 3 : 4), reason);
  if (!allowed) {
    // Of restarts in a row each has a cause.
    const bool spent = verdict == RestartBudget::Verdict::kSpent;
    const bool resumable = from_outside && (spent || own_doing_at_ != furthest_);
    return stop_now(resumable ? exit_code(ErrorKind::kResumable) : 1, reason + refusal(verdict));
  }
  turn_.print(action::Severity::kWarning, reason + "; " + restarts_.announcement());
  facts_.group = Group::kRestarting;
  tell_all(order::Kill{"the group starts again"});
}

std::string RunKeeper::refusal(RestartBudget::Verdict verdict) const {
  if (config_.attached) return "; nobody starts workers that were started by hand again";
  if (verdict == RestartBudget::Verdict::kSpent)
    return "; " + restarts_.refusal(facts_.elastic ? " from a checkpoint" : "");
  if (verdict == RestartBudget::Verdict::kSameError)
    return "; the same error ended the group in the same transaction (" + std::to_string(applied_) +
           ") before: another try would end so, too";
  return "; " + std::to_string(config_.no_progress_restarts) +
         " restarts in a row got no further than transaction " + std::to_string(furthest_);
}

bool RunKeeper::blame_outside() {
  const IncidentBook::Entry* incident = incidents_.newest();
  return incident != nullptr && incident->from_outside;
}

// A fresh board: nothing of the old group counts any more.
void RunKeeper::begin_group() {
  facts_.group = Group::kStarting;
  began_at_ = turn_.now;
  ended_early_.clear();
  news_.begin_group();
  server_.reset();
  proposal_.reset();
  first_txn_ = applied_ = 0;
  crashes_ = {};
  hopeless_ = false;
  none_since_.reset();
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    HostFacts& facts = facts_.hosts[h];
    if (facts.standing == Standing::kOut) {
      hosts_[h].off_tables = true;  // no table of this board had it
      continue;
    }
    facts.target = facts.wanted;
    begin(h);
  }
}

}  // namespace lockstep::coord
