// Deaths: who caused them, what they cost, and which rung of the ladder mends them.
#include <csignal>

#include "coord/membership_state.h"
#include "coord/ownership.h"

namespace lockstep::coord {

void Coordinator::State::evict(Worker& worker, Cause cause, std::string text) {
  if (worker.evicted || worker.dismissed) return;
  worker.evicted_for = cause;
  act(action::Kill{worker.uid, SIGKILL}, name(worker) + ": " + text);
  worker.evicted = std::move(text);
}

void Coordinator::State::on_death(const Worker& worker, const Death& death) {
  const std::string error = worker.failure ? worker.failure->message : "";  // told already
  const bool from_outside = death.cause == Cause::kFromOutside;
  const std::optional<Txn> interrupted = interrupted_by(worker);
  IncidentBook::Entry& incident =
      incidents.add({worker.uid, board.rank_of(worker), death.text, error, death.ended_well},
                    interrupted, from_outside, worker.seen.fault_fired_ns, turn.now);
  if (death.cause == Cause::kOwnDoing && worker.holds_state()) note_crash(worker);
  const std::string died =
      name(worker) + " died (" + death.text + ")" +
      (ended_early.empty() ? "" : "; before it, with exit 0, ended " + ended_early);
  if (!facts.elastic) return restart_unless_signalled(died, death);
  if (facts.group == Group::kStarting && death.cause == Cause::kOwnDoing)
    return restart_or_stop(died, from_outside);
  const bool last = worker.holds_state() &&
                    std::none_of(workers.begin(), workers.end(),
                                 [](const auto& entry) { return entry.second.holds_state(); });
  const std::string then = last                      ? "nobody else holds the state"
                           : active() < facts.target ? replace(worker, death.cause, incident)
                                                     : "the others go on";
  news.tell_death(name(worker), worker, death, interrupted, then);
  if (!interrupted)
    act(action::RecordIncident{incident.report}, "a worker died outside the group's work");
}

// The newest transaction that somebody works on; none if it had no part in the work.
std::optional<Txn> Coordinator::State::interrupted_by(const Worker& worker) const {
  if (!worker.holds_state() && !worker.proposed) return std::nullopt;
  Txn newest = worker.seen.current_txn;
  for (const auto& [uid, other] : workers)
    if (other.holds_state()) newest = std::max(newest, other.seen.current_txn);
  return newest;
}

// Somebody else holds the state and runs. One that is to leave can stay as long as it is in the
// newest table (keep_leavers()).
bool Coordinator::State::goes_on_without(const Worker& worker) const {
  return std::any_of(workers.begin(), workers.end(), [&](const auto& entry) {
    const Worker& other = entry.second;
    const bool can_stay = other.stage == Stage::kMember ||
                          (other.stage == Stage::kLeaving && !other.left && !board.tables.empty() &&
                           board.tables.back().has(other.uid));
    return other.uid != worker.uid && can_stay && !other.stopped_at && !other.evicted;
  });
}

// The shares that it owned count a crash each: one that crashes all its owners is hopeless.
void Coordinator::State::note_crash(const Worker& worker) {
  const Txn txn = worker.seen.current_txn;
  for (const Table& table : board.tables) {
    if (table.txn != txn) continue;
    const auto self = std::find_if(table.members.begin(), table.members.end(),
                                   [&](const Member& member) { return member.uid == worker.uid; });
    if (self == table.members.end()) continue;
    std::vector<WorkerUid> earlier(board.dead);
    std::erase(earlier, worker.uid);
    const Ownership ownership(table, facts.virtual_workers, stay_of(worker.uid), earlier);
    const auto index = static_cast<std::uint32_t>(self - table.members.begin());
    hopeless = crashes.add(txn, ownership.items_of(index)) || hopeless;
  }
}

// Charges the budget for a replacement, which settle() then starts; or does without.
std::string Coordinator::State::replace(const Worker& worker, Cause cause,
                                        IncidentBook::Entry& incident) {
  const bool has_room = board.dead.size() + workers.size() < kMaxDead;
  if (config.attached) {
    incident.replaced = has_room;
    if (!has_room) --facts.target;
    return what_goes_on(has_room);
  }
  // Who ends before it takes part, and each time anew: tried less and less often, and not for ever.
  const bool in_vain = cause == Cause::kFailedSpawn || worker.is_on_its_way();
  if (in_vain) spawns.fail(turn.now);
  const bool tries = spawns.again() && !worker.refused;
  // One charge per incident; but each try to start somebody is one, or they would never end. Who
  // was only slow may be healthy, and its next eviction takes twice as long.
  const bool free = cause == Cause::kHung && !standstills.strict();
  const bool charged = incident.replaced && !in_vain;
  incident.replaced = tries && (charged || (has_room && (free || replacements.charge(furthest))));
  const std::string most = std::to_string(config.max_replacements);
  if (incident.replaced)
    return "a replacement is started (" + std::to_string(replacements.left(furthest)) + " of " +
           most + " left)";
  --facts.target;
  std::string then = "the others go on without it";
  if (worker.refused) return then;
  if (tries) return then + ": --max-replacements " + most + " is spent";
  return then + ": " + std::to_string(spawns.failed) + " tries in a row have failed";
}

void Coordinator::State::note_progress(const event::Progress& report) {
  for (const Table& table : report.tables) {
    for (const Member& member : table.members) {
      Worker* worker = find(member.uid);
      if (worker == nullptr || worker->stage < Stage::kReady) continue;
      if (worker->stage == Stage::kReady) worker->stage = Stage::kMember;
      worker->first_txn = std::min(worker->first_txn.value_or(table.txn), table.txn);
    }
  }
  if (!report.tables.empty()) board.tables = report.tables;
  note_stop();
  // The next table of whoever works may still list the dead; and they may have been ahead of all
  // others, and have published one themselves.
  std::uint64_t last_listed = 0;
  for (const Table& table : board.tables) last_listed = std::max(last_listed, table.txn.value());
  for (const WorkerProgress& seen : report.workers) {
    applied = std::max(applied, seen.applied);
    Worker* worker = find(seen.uid);
    if (worker == nullptr) continue;
    worker->seen = seen;
    if (worker->holds_state())
      last_listed = std::max({last_listed, seen.current_txn.value() + 1, seen.applied + 1});
  }
  furthest = std::max(furthest, applied);
  news.tell_held(applied, facts.is_ending());
  note_worker_signals();
  standstills.see(report);

  std::vector<WorkerProgress> survivors;
  std::uint64_t applied_by_all = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t members = 0;
  for (const auto& [uid, worker] : workers) {
    if (!worker.holds_state()) continue;
    survivors.push_back(worker.seen);
    applied_by_all = std::min(applied_by_all, worker.seen.applied);
    members += worker.leaving() ? 0 : 1;
  }
  if (survivors.empty()) return;
  tell_scaled(members);
  slots.observe(last_listed, applied_by_all);
  for (Incident& incident :
       incidents.observe(survivors, applied_by_all, members >= facts.target, turn.now))
    act(action::RecordIncident{std::move(incident)}, "an incident has moved on");
}

// Rung 1 needs somebody who can finish the transaction that the run is in.
void Coordinator::State::check_survivors() {
  if (hopeless)
    return restart_or_stop(
        why_none_is_left(
            incidents.newest(),
            "a share of one step crashed " + std::to_string(CrashLedger::kMostOwners) + " workers"),
        false);
  bool any = false, member = false, able = false;
  for (auto& [uid, worker] : workers) {
    if (!worker.holds_state()) continue;
    any = true;
    member = member || worker.stage == Stage::kMember;
    able = able || worker.first_txn->value() <= applied;
  }
  if (!any) {
    return restart_or_stop(
        why_none_is_left(incidents.newest(), "no worker that holds the state is alive"),
        blame_outside());
  }
  if (!member) keep_leavers();
  if (able) {
    orphaned_since.reset();
  } else if (!orphaned_since) {
    orphaned_since =
        turn.now;  // the transaction may be whole: then the newcomers apply it any moment
  }
}

// Those who were to leave are the last ones who hold the state: as many as are wanted stay, in the
// place of newcomers.
void Coordinator::State::keep_leavers() {
  std::uint32_t kept = 0;
  for (auto& [uid, worker] : workers) {
    if (kept == std::max(facts.target, 1U)) break;
    if (worker.stage != Stage::kLeaving || worker.dismissed || worker.left) continue;
    worker.stage = Stage::kMember;
    std::erase(order, uid);  // it may not have left the proposal yet
    order.insert(order.begin(), uid);
    ++kept;
  }
  dismiss_newcomers();
}

void Coordinator::State::restart_or_stop(const std::string& reason, bool from_outside) {
  waiting_restart.reset();
  std::optional<RestartBudget::Place> place;
  if (facts.elastic)
    place = {furthest, applied,
             from_outside ? std::string() : own_error(incidents.newest(), reason)};
  const auto verdict = restarts.charge(place);
  if (!from_outside) own_doing_at = furthest;
  news.drop_held();
  const int rung = verdict == RestartBudget::Verdict::kAllowed ? 3 : 4;
  for (Incident& incident : incidents.close_all(rung))
    act(action::RecordIncident{std::move(incident)}, reason);
  if (verdict != RestartBudget::Verdict::kAllowed) {
    const bool spent = verdict == RestartBudget::Verdict::kSpent;
    const bool same = verdict == RestartBudget::Verdict::kSameError;
    // Of restarts in a row each has a cause.
    const bool resumable = from_outside && (spent || own_doing_at != furthest);
    if (config.attached)
      return stop_now(resumable ? exit_code(ErrorKind::kResumable) : 1,
                      reason + "; nobody starts workers that were started by hand again");
    return stop_now(
        resumable ? exit_code(ErrorKind::kResumable) : 1,
        reason + (spent  ? "; " + restarts.refusal(facts.elastic ? " from a checkpoint" : "")
                  : same ? "; the same error ended the group in the same transaction (" +
                               std::to_string(applied) + ") before: another try would end so, too"
                         : "; " + std::to_string(config.no_progress_restarts) +
                               " restarts in a row got no further than transaction " +
                               std::to_string(furthest)));
  }
  print(action::Severity::kWarning, reason + "; " + restarts.announcement());
  facts.group = Group::kRestarting;
  kill_all(SIGKILL, "the group starts again");
}

bool Coordinator::State::blame_outside() {
  const IncidentBook::Entry* incident = incidents.newest();
  return incident != nullptr && incident->from_outside;
}

// A fresh board: nothing of the old group counts any more.
void Coordinator::State::begin_group() {
  facts.group = Group::kStarting;
  facts.since = turn.now;
  ended_early.clear();
  worker_signal_at.reset();
  news.begin_group();
  standstills.begin_group();
  order.clear();
  board = {};
  proposal.reset();
  applied = 0;
  spawns = {};
  slots = {};
  crashes = {};
  hopeless = false;
  facts.target = facts.wanted;
  orphaned_since.reset();
  donor = Donor(timing.heal_retry);
}

}  // namespace lockstep::coord
