// Workers that get no further: who is told of, who is evicted, and how slow a start may be.
#include <algorithm>
#include <cmath>

#include "coord/membership_state.h"
#include "coord/ownership.h"

namespace lockstep::coord {
namespace {

constexpr double kAsleep = 0.02;  // CPUs; less is what a process takes that only looks around

std::string activity(double cpus) {
  return cpus < kAsleep ? "asleep"
                        : "running (" + std::to_string(std::lround(100 * cpus)) + " % of a CPU)";
}

std::string where_it_stands(const WorkerProgress& seen) {
  if (is_computing(seen.phase)) return place_of(seen);
  if (seen.phase == Phase::kSnapshot) return " at a checkpoint";
  if (seen.phase == Phase::kHeal) return " copying its state";
  return " between steps, after " + std::to_string(seen.applied) + " transactions";
}

// For people: "45.0 s", "20 min".
std::string time_of(std::uint64_t ns) {
  constexpr std::uint64_t kMinute = 60'000'000'000;
  return ns < 2 * kMinute ? seconds(ns) : std::to_string((ns + kMinute / 2) / kMinute) + " min";
}

}  // namespace

// Those that own something of a transaction in which another member waits, and are not there yet.
// Who waits has to be able to finish the transaction without them, or their end would be its own.
std::vector<WorkerUid> Coordinator::State::awaited() const {
  std::vector<WorkerUid> found;
  if (!hangs.any_still()) return found;
  for (const Table& table : tables) {
    const std::uint64_t txn = table.txn.value();
    const auto worker_of = [&](const Member& member) { return workers.find(member.uid); };
    const auto is_there = [&](const WorkerProgress& seen) {
      return seen.applied > txn ||
             (seen.phase == Phase::kExchange && seen.current_txn.value() == txn);
    };
    std::optional<std::uint32_t> items;  // as one says that waits
    for (const Member& member : table.members)
      if (const Worker* worker = worker_of(member);
          worker != nullptr && !worker->stopped_at && !worker->held && !worker->evicted &&
          worker->seen.applied <= txn && is_there(worker->seen))
        items = worker->seen.items;
    if (!items) continue;
    const Ownership ownership(table, *items, Stay(), dead);
    for (std::uint32_t m = 0; m < table.members.size(); ++m) {
      const Worker* worker = worker_of(table.members[m]);
      if (worker == nullptr || !ownership.alive(m) || is_there(worker->seen)) continue;
      if (!ownership.items_of(m).empty() || ownership.first_live() == m)
        found.push_back(worker->uid);
    }
  }
  return found;
}

void Coordinator::State::watch_standstills(const event::Progress& report) {
  const std::vector<WorkerUid> owing = awaited();
  for (const WorkerProgress& seen : report.workers) {
    const Worker* worker = find(seen.uid);
    if (worker == nullptr || !worker->holds_state() || worker->left || worker->evicted) continue;
    hangs.observe(seen, worker->vitals, std::ranges::find(owing, seen.uid) != owing.end(), now);
  }
  if (hangs.learnt() == recorded_standstills) return;
  recorded_standstills = hangs.learnt();
  act(action::RecordStandstills{recorded_standstills}, "a limit has grown");
}

void Coordinator::State::on(const event::Vitals& report) {
  const auto more = [](std::uint64_t after, std::uint64_t before) {
    return after > before ? after - before : 0;
  };
  const std::uint64_t zygote = more(report.zygote.excused_ns, zygote_vitals.excused_ns);
  zygote_vitals = report.zygote;
  for (auto& [uid, worker] : workers)
    if (worker.stage == Stage::kSpawning) worker.since += zygote;
  for (const WorkerVitals& vitals : report.workers) {
    Worker* worker = find(vitals.uid);
    if (worker == nullptr) continue;
    const std::uint64_t excused = more(vitals.excused_ns, worker->vitals.excused_ns);
    if (worker->stage > Stage::kSpawning && worker->stage < Stage::kReady) worker->since += excused;
    worker->held = 2 * excused > now - vitals_at;
    worker->vitals = vitals;
  }
  vitals_at = now;
}

void Coordinator::State::on(const event::Remembered& earlier) {
  hangs.remember(earlier.standstills);
  recorded_standstills = hangs.learnt();
}

void Coordinator::State::evict_hung() {
  const auto hang = hangs.hung();
  if (!hang) return;
  Worker& worker = *find(hang->worker);
  hangs.evicted(*hang);
  const std::string where =
      hang->phase == Phase::kIdle ? "between steps" : std::string("in ") + to_string(hang->phase);
  const std::string why = hangs.strict() ? "; --hang-timeout allows more"
                                         : " while others waited for it; the next one has " +
                                               time_of(hangs.limit(hang->phase)) + " there";
  evict(worker, Cause::kHung,
        "hung " + where + " for " + seconds(hang->counted) + ", " + activity(hang->ran) + why);
}

void Coordinator::State::tell_standstills() {
  for (const HangWatch::Standstill& still : hangs.to_tell()) {
    const Worker* worker = find(still.worker);
    if (worker == nullptr || worker->evicted) continue;
    const std::string limit = time_of(hangs.limit(still.phase));
    const std::string patience =
        hangs.strict() ? "--hang-timeout gives it " + limit
                       : std::string(still.awaited ? "others wait for it" : "nobody waits for it") +
                             "; it is left alone until others have waited for " + limit +
                             " (--hang-timeout S: for S seconds, whether they wait or not)";
    print(action::Severity::kWarning, name(*worker) + " has got no further for " +
                                          seconds(still.lasted) + where_it_stands(worker->seen) +
                                          ": it is " + activity(still.ran) + "; " + patience);
  }
}

// What a worker that is not ready has come to.
std::string Coordinator::State::not_ready(const Worker& worker) const {
  const auto of_process = [&](const std::string& what, const WorkerVitals& vitals) {
    const auto life = static_cast<double>(now - std::min(now, worker.since));
    return what + ", " + activity(life == 0 ? 0 : static_cast<double>(vitals.ran_ns) / life);
  };
  const std::string who = name(worker) + " ";
  if (worker.stage == Stage::kSpawning && config.attached) return who + "has not come";
  if (worker.stage == Stage::kSpawning)
    return of_process(who + "waits for main() to come to lockstep::init()", zygote_vitals);
  if (worker.stage == Stage::kForked)
    return of_process(who + "has not come to lockstep::init()", worker.vitals);
  if (worker.stage == Stage::kGreeted)
    return of_process(who + "has not come to its run (data sets, model)", worker.vitals);
  return of_process(who + "loads its state", worker.vitals);
}

void Coordinator::State::tell_slow_start() {
  const auto due = [](std::uint64_t lasted, std::uint64_t& told) {
    if (lasted < std::max(HangWatch::kFirstTold, 2 * told)) return false;
    told = lasted;
    return true;
  };
  const bool starts = group == Group::kStarting;
  if (starts && !due(now - group_since, start_told)) return;
  if (!starts && group != Group::kRunning) return;
  std::string missing;
  for (auto& [uid, worker] : workers) {
    if (worker.stage >= Stage::kReady || worker.dismissed || worker.evicted || worker.refused)
      continue;
    if (starts)
      missing += (missing.empty() ? "" : "; ") + not_ready(worker);
    else if (!config.attached && due(now - std::min(now, worker.since), worker.start_told))
      print(action::Severity::kWarning, not_ready(worker) + " for " + seconds(worker.start_told) +
                                            " by now; it has " + time_of(timing.join));
  }
  if (starts)
    print(action::Severity::kWarning,
          "the start has taken " + seconds(start_told) + " of " + time_of(timing.first_table) +
              (missing.empty() ? ": main() has not come to lockstep::init()" : ": " + missing));
}

}  // namespace lockstep::coord
