#include "coord/standstills.h"

#include <algorithm>
#include <cmath>

#include "base/seconds.h"
#include "coord/death_news.h"
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

// It could finish what it waits for.
bool can_wait(const Worker& worker) {
  return !worker.stopped_at && !worker.held && !worker.evicted;
}

}  // namespace

Waits Standstills::waits() const {
  Waits newest;
  for (const auto& [uid, worker] : workers_) {
    const WorkerProgress& seen = worker.seen;
    if (worker.holds_state() && can_wait(worker) && seen.phase == Phase::kExchange &&
        (newest.items == 0 || seen.current_txn > newest.txn))
      newest = {seen.current_txn, seen.items};
  }
  return newest;
}

// On another host a member waits in this transaction.
bool Standstills::waits_elsewhere(Txn txn, std::uint32_t& items) const {
  return run_.any([&](const HostFacts& host) {
    const bool waits = host.stay.host != stay_.host && host.standing == Standing::kHere &&
                       host.waits.items > 0 && host.waits.txn == txn;
    if (waits) items = host.waits.items;
    return waits;
  });
}

// Those that own something of a transaction in which another member waits, and are not there yet.
// Who waits has to be able to finish the transaction without them, or their end would be its own.
std::vector<WorkerUid> Standstills::awaited() const {
  std::vector<WorkerUid> found;
  if (!hangs_.any_still()) return found;
  for (const Table& table : board_.tables) {
    const std::uint64_t txn = table.txn.value();
    const auto worker_of = [&](const Member& member) { return workers_.find(member.uid); };
    const auto is_there = [&](const WorkerProgress& seen) {
      return seen.applied > txn ||
             (seen.phase == Phase::kExchange && seen.current_txn.value() == txn);
    };
    std::uint32_t items = 0;  // as one says that waits
    bool waits = waits_elsewhere(table.txn, items);
    for (const Member& member : table.members)
      if (const Worker* worker = worker_of(member); worker != nullptr && can_wait(*worker) &&
                                                    worker->seen.applied <= txn &&
                                                    is_there(worker->seen)) {
        waits = true;
        items = worker->seen.items;
      }
    if (!waits) continue;
    const Ownership ownership(table, items, stay_, board_.dead);
    for (std::uint32_t m = 0; m < table.members.size(); ++m) {
      const Worker* worker = worker_of(table.members[m]);
      if (worker == nullptr || !ownership.alive(m) || is_there(worker->seen)) continue;
      if (!ownership.items_of(m).empty() || ownership.first_live() == m)
        found.push_back(worker->uid);
    }
  }
  return found;
}

void Standstills::see(const event::Progress& report) {
  const std::vector<WorkerUid> owing = awaited();
  for (const WorkerProgress& seen : report.workers) {
    const Worker* worker = workers_.find(seen.uid);
    if (worker == nullptr || !worker->holds_state() || worker->left || worker->evicted) continue;
    hangs_.observe(seen, worker->vitals, std::ranges::find(owing, seen.uid) != owing.end(),
                   turn_.now);
  }
  if (hangs_.learnt() == recorded_) return;
  recorded_ = hangs_.learnt();
  turn_.act(action::RecordStandstills{recorded_}, "a limit has grown");
}

void Standstills::see(const event::Vitals& report) {
  const auto more = [](std::uint64_t after, std::uint64_t before) {
    return after > before ? after - before : 0;
  };
  const std::uint64_t zygote = more(report.zygote.excused_ns, zygote_vitals_.excused_ns);
  zygote_vitals_ = report.zygote;
  for (auto& [uid, worker] : workers_)
    if (worker.stage == Stage::kSpawning) worker.since += zygote;
  for (const WorkerVitals& vitals : report.workers) {
    Worker* worker = workers_.find(vitals.uid);
    if (worker == nullptr) continue;
    const std::uint64_t excused = more(vitals.excused_ns, worker->vitals.excused_ns);
    if (worker->stage > Stage::kSpawning && worker->stage < Stage::kReady) worker->since += excused;
    worker->held = 2 * excused > turn_.now - vitals_at_;
    worker->vitals = vitals;
  }
  vitals_at_ = turn_.now;
}

void Standstills::remember(const event::Remembered& earlier) {
  hangs_.remember(earlier.standstills);
  recorded_ = hangs_.learnt();
}

std::optional<Standstills::Hung> Standstills::hung() {
  const auto hang = hangs_.hung();
  if (!hang) return std::nullopt;
  hangs_.evicted(*hang);
  const std::string where =
      hang->phase == Phase::kIdle ? "between steps" : std::string("in ") + to_string(hang->phase);
  const std::string why = hangs_.strict() ? "; --hang-timeout allows more"
                                          : " while others waited for it; the next one has " +
                                                time_of(hangs_.limit(hang->phase)) + " there";
  return Hung{hang->worker, "hung " + where + " for " + seconds(hang->counted) + ", " +
                                activity(hang->ran) + why};
}

void Standstills::tell() {
  for (const HangWatch::Standstill& still : hangs_.to_tell()) {
    const Worker* worker = workers_.find(still.worker);
    if (worker == nullptr || worker->evicted) continue;
    const std::string limit = time_of(hangs_.limit(still.phase));
    const std::string patience =
        hangs_.strict()
            ? "--hang-timeout gives it " + limit
            : std::string(still.awaited ? "others wait for it" : "nobody waits for it") +
                  "; it is left alone until others have waited for " + limit +
                  " (--hang-timeout S: for S seconds, whether they wait or not)";
    turn_.print(action::Severity::kWarning, board_.name(*worker) + " has got no further for " +
                                                seconds(still.lasted) +
                                                where_it_stands(worker->seen) + ": it is " +
                                                activity(still.ran) + "; " + patience);
  }
}

// What a worker that is not ready has come to.
std::string Standstills::not_ready(const Worker& worker) const {
  const auto of_process = [&](const std::string& what, const WorkerVitals& vitals) {
    const auto life = static_cast<double>(turn_.now - std::min(turn_.now, worker.since));
    return what + ", " + activity(life == 0 ? 0 : static_cast<double>(vitals.ran_ns) / life);
  };
  const std::string who = board_.name(worker) + " ";
  if (worker.stage == Stage::kSpawning && config_.attached) return who + "has not come";
  if (worker.stage == Stage::kSpawning)
    return of_process(who + "waits for main() to come to lockstep::init()", zygote_vitals_);
  if (worker.stage == Stage::kForked)
    return of_process(who + "has not come to lockstep::init()", worker.vitals);
  if (worker.stage == Stage::kGreeted)
    return of_process(who + "has not come to its run (data sets, model)", worker.vitals);
  return of_process(who + "loads its state", worker.vitals);
}

void Standstills::tell_slow_start() {
  const auto due = [](std::uint64_t lasted, std::uint64_t& told) {
    if (lasted < std::max(HangWatch::kFirstTold, 2 * told)) return false;
    told = lasted;
    return true;
  };
  const bool starts = run_.group == Group::kStarting;
  if (starts && !due(turn_.now - began_at_, start_told_)) return;
  if (!starts && run_.group != Group::kRunning) return;
  std::string missing;
  for (auto& [uid, worker] : workers_) {
    if (worker.stage >= Stage::kReady || worker.dismissed || worker.evicted || worker.refused)
      continue;
    if (starts)
      missing += (missing.empty() ? "" : "; ") + not_ready(worker);
    else if (!config_.attached &&
             due(turn_.now - std::min(turn_.now, worker.since), worker.start_told))
      turn_.print(action::Severity::kWarning, not_ready(worker) + " for " +
                                                  seconds(worker.start_told) + " by now; it has " +
                                                  time_of(config_.timing.join));
  }
  if (starts)
    turn_.print(
        action::Severity::kWarning,
        "the start has taken " + seconds(start_told_) + " of " +
            time_of(config_.timing.first_table) +
            (missing.empty() ? ": main() has not come to lockstep::init()" : ": " + missing));
}

}  // namespace lockstep::coord
