#include "simulation/sim_agent.h"

#include <algorithm>
#include <csignal>

namespace lockstep::simulation {

namespace action = coord::action;
namespace event = coord::event;

SimAgent::SimAgent(Host& host, const AgentOptions& options)
    : host_(host), options_(options), coordinator_(options.config) {
  host_.to_agent = [this](WorkerUid uid, coord::Event event) {
    mail_[uid].push_back(std::move(event));
    host_.clock.after(host_.random.between(20 * kMicrosecond, options_.slowest_message),
                      [this, uid] { deliver(uid); });
  };
  host_.exited = [this](WorkerUid uid, coord::ExitStatus status) {
    host_.clock.after(host_.random.between(20 * kMicrosecond, 500 * kMicrosecond),
                      [this, uid, status] { reap(uid, status); });
  };
  host_.ring_all = [this] { ring_all(); };
}

void SimAgent::start() {
  start_board();
  feed(event::Start{});
  tick();
}

void SimAgent::tick() {
  if (exit_code_) return;
  feed(look_at_vitals());
  feed(observe(WorkerUid(0)));
  feed(event::Tick{});
  const std::uint64_t quiet = host_.clock.now() - std::min(host_.clock.now(), host_.last_commit_at);
  // Minutes in which nothing happens: as seldom as it may, which a second of silence is not.
  const std::uint64_t pause = quiet > 20 * kSecond                ? 900 * kMillisecond
                              : quiet > kSecond && options_.idles ? 200 * kMillisecond
                                                                  : options_.tick;
  host_.clock.after(pause, [this] { tick(); });
}

void SimAgent::feed(const coord::Event& event) {
  if (exit_code_) return;
  if (const auto* ready = std::get_if<coord::event::Ready>(&event)) ready_.insert(ready->uid);
  coord::Actions actions = coordinator_.handle(event, host_.clock.now());
  for (const coord::Action& each : actions) {
    journal.push_back(std::to_string(host_.clock.now() / kMicrosecond) + " us: action " +
                      std::to_string(each.what.index()) + " (" + each.reason + ")");
    if (const auto* print = std::get_if<action::Print>(&each.what)) {
      journal.back() += " " + print->text;
      if (print->text.find(" to all workers") != std::string::npos) check_signals();
    }
    require(!exit_code_, "an action follows Stop");
    const auto* kill = std::get_if<action::Kill>(&each.what);
    if (kill != nullptr && each.reason.find(": hung ") != std::string::npos) {
      const SimWorker* worker = find(kill->uid);
      if (worker != nullptr) check_eviction(*worker);
    }
    std::visit([this](const auto& what) { act(what); }, each.what);
  }
}

// Whoever is to stay, and could note one, has.
void SimAgent::check_signals() {
  stopped_by_workers_ = true;
  for (const SimWorker* worker : alive()) {
    const std::vector<coord::Member>& wanted = board_->proposal.members;
    const bool stays =
        std::ranges::find(wanted, worker->uid(), &coord::Member::uid) != wanted.end();
    const bool deaf = worker->stopped() && !worker->is_signalled();
    if (worker->boots() || worker->healing() || deaf || !stays) continue;
    require(worker->is_signalled() || worker->hung(),
            "the run stops by a signal that not all have");
  }
}

// Whoever is taken for hung has stood still for its limit; and, but for --hang-timeout, another
// waits for it.
void SimAgent::check_eviction(const SimWorker& evicted) {
  const std::uint64_t strict = options_.config.timing.strict_hang;
  // A pause that ends between two looks is not seen.
  require(evicted.stood_still() + kSecond >= (strict != 0 ? strict : coord::HangWatch::kLeast),
          "a worker is taken for hung that has not stood still for as long");
  require(!evicted.stopped() || strict != 0, "a worker that is held back is taken for hung");
  require(strict != 0 || std::ranges::any_of(workers_,
                                             [&](const auto& entry) {
                                               return entry.second.get() != &evicted &&
                                                      entry.second->in_exchange();
                                             }),
          "a worker is taken for hung for which nobody waits");
  ++(evicted.hung() ? hung_evicted_ : slow_evicted_);
}

// Those that are stopped, or held by a debugger.
event::Vitals SimAgent::look_at_vitals() {
  event::Vitals seen;
  const std::uint64_t now = host_.clock.now();
  for (const auto& [uid, worker] : workers_) {
    coord::WorkerVitals& vitals = vitals_[uid];
    vitals.uid = uid;
    if (worker->stopped()) vitals.excused_ns += now - last_look_;
    seen.workers.push_back(vitals);
  }
  last_look_ = now;
  return seen;
}

// In order; a message's own delay only says when the mailbox is looked at.
void SimAgent::deliver(WorkerUid uid) {
  auto& box = mail_[uid];
  if (box.empty()) return;
  const coord::Event event = std::move(box.front());
  box.pop_front();
  feed(event);
}

coord::event::Progress SimAgent::observe(WorkerUid just_dead) const {
  event::Progress report;
  for (const auto& [uid, worker] : workers_) {
    if (!worker->alive() && uid != just_dead) continue;
    const SimSlot& slot = board_->slots[worker->slot().value()];
    coord::WorkerProgress& seen = report.workers.emplace_back();
    if (slot.uid == uid.value()) seen = slot.progress;
    seen.uid = uid;
  }
  for (const auto& table : board_->tables)
    if (table) report.tables.push_back(*table);
  std::sort(report.tables.begin(), report.tables.end(),
            [](const auto& a, const auto& b) { return a.txn < b.txn; });
  return report;
}

void SimAgent::reap(WorkerUid uid, coord::ExitStatus status) {
  while (!mail_[uid].empty()) deliver(uid);  // its last words
  feed(observe(uid));
  note_holders();
  const auto found = workers_.find(uid);
  graveyard_.push_back(std::move(found->second));
  workers_.erase(found);
  if (options_.config.attached)
    status = killed_.contains(uid) ? coord::ExitStatus{-1, SIGKILL} : coord::ExitStatus{};
  feed(event::Exited{uid, status});
}

// Who can still finish the transaction that the run is in: the members of its table.
void SimAgent::note_holders() {
  std::uint64_t current = 0;
  bool any_table = false;
  for (const auto& table : board_->tables) any_table = any_table || table.has_value();
  lost_at_start_ = lost_at_start_ || !any_table;
  if (!any_table) return;
  for (const SimSlot& slot : board_->slots) current = std::max(current, slot.progress.applied);
  const coord::Table* table = board_->table(current);
  if (table == nullptr) return;  // the first transaction of a resumed run
  const bool any =
      std::any_of(table->members.begin(), table->members.end(), [&](const coord::Member& member) {
        const auto found = workers_.find(member.uid);
        return found != workers_.end() && found->second->alive();
      });
  lost_everybody_ = lost_everybody_ || !any;
}

std::vector<SimWorker*> SimAgent::alive() const {
  std::vector<SimWorker*> workers;
  for (const auto& [uid, worker] : workers_)
    if (worker->alive()) workers.push_back(worker.get());
  return workers;
}

std::vector<SimWorker*> SimAgent::stopped_alone() const {
  std::vector<SimWorker*> stopped;
  for (SimWorker* worker : alive()) {
    if (worker->stopped()) stopped.push_back(worker);
    if (!worker->stopped() && !worker->healing()) return {};
  }
  return stopped;
}

std::vector<SimWorker*> SimAgent::members_before_newcomer() {
  if (board_->history.size() < 2) return {};
  const coord::Table* b = &board_->history.rbegin()->second;
  const coord::Table* a = &std::next(board_->history.rbegin())->second;
  std::vector<SimWorker*> members;
  bool newcomer = false;
  for (const coord::Member& member : b->members)
    newcomer =
        newcomer || std::find(a->members.begin(), a->members.end(), member) == a->members.end();
  for (const coord::Member& member : a->members) {
    SimWorker* worker = find(member.uid);
    if (worker == nullptr) continue;
    if (board_->slots[member.slot.value()].progress.applied > a->txn.value()) return {};
    members.push_back(worker);
  }
  return newcomer ? members : std::vector<SimWorker*>();
}

SimWorker* SimAgent::find(WorkerUid uid) {
  const auto found = workers_.find(uid);
  return found == workers_.end() || !found->second->alive() ? nullptr : found->second.get();
}

void SimAgent::ring_all() {
  for (const auto& [uid, worker] : workers_) worker->ring();
}

// A table that somebody alive has yet to come to lists a dead owner of a slot below this one.
bool SimAgent::lists_dead_below(Slot slot) const {
  std::optional<std::uint64_t> behind;
  for (const auto& [uid, worker] : workers_) {
    const SimSlot& own = board_->slots[worker->slot().value()];
    if (worker->alive() && own.needs != 0)
      behind = std::min(behind.value_or(own.progress.applied), own.progress.applied);
  }
  if (!behind) return false;
  for (auto at = board_->history.lower_bound(*behind); at != board_->history.end(); ++at)
    for (const coord::Member& member : at->second.members)
      if (member.slot < slot && workers_.count(member.uid) == 0) return true;
  return false;
}

void SimAgent::act(const action::Spawn& spawn) {
  ++spawned_;
  held_back_ += lists_dead_below(spawn.slot) ? 1 : 0;
  require(spawn.rank.value() < spawn.world_size && spawn.local_rank.value() < spawn.world_size,
          "rank " + std::to_string(spawn.rank.value()) + " is given to one of " +
              std::to_string(spawn.world_size));
  if (options_.config.attached) return open_place(spawn);
  const std::uint64_t zygote = zygote_;
  if (refuse_spawns_ > 0 && spawn.newcomer) {
    --refuse_spawns_;
    host_.clock.after(100 * kMicrosecond, [this, uid = spawn.uid] {
      feed(event::SpawnFailed{uid, "Resource temporarily unavailable"});
    });
    return;
  }
  require(zygote_ready_, "a worker is asked for while no zygote is ready");
  host_.clock.after(host_.random.between(kMillisecond, 4 * kMillisecond),
                    [this, spawn, zygote, board = board_] {
                      if (zygote == zygote_ && zygote_ready_) fork(spawn, board);
                    });
}

void SimAgent::fork(const action::Spawn& spawn, const std::shared_ptr<SimBoard>& board) {
  for (const auto& [uid, worker] : workers_)
    require(!worker->alive() || worker->board() != board || worker->slot() != spawn.slot,
            "slot " + std::to_string(spawn.slot.value()) + " is given to a second live worker");
  workers_[spawn.uid] = std::make_unique<SimWorker>(host_, board, spawn);
  crowded_ += alive().size() > host_.plan.virtual_workers ? 1 : 0;
  feed(event::Forked{spawn.uid, 1});
}

// Somebody comes with the same command, soon; for a dead one's place perhaps nobody ever does.
void SimAgent::open_place(const action::Spawn& place) {
  places_.insert(place.uid);
  if (place.newcomer && host_.random.chance(0.2)) return;
  host_.clock.after(host_.random.between(kMillisecond, 40 * kMillisecond),
                    [this, place, board = board_] {
                      if (!exit_code_ && places_.erase(place.uid) != 0) fork(place, board);
                    });
}

// Who is stopped cannot read it.
void SimAgent::act(const action::End& end) {
  host_.clock.after(host_.random.between(kMicrosecond, kMillisecond), [this, end] {
    SimWorker* worker = find(end.uid);
    if (worker != nullptr && !worker->stopped()) return worker->end({end.code, 0});
    host_.clock.after(2 * kSecond, [this, uid = end.uid] { act(action::Kill{uid, SIGKILL}); });
  });
}

void SimAgent::act(const action::Kill& kill) {
  const WorkerUid uid = kill.uid;
  if (places_.erase(uid) != 0) {
    host_.clock.after(0, [this, uid] { feed(event::SpawnFailed{uid, "nobody has come"}); });
    return;
  }
  if (kill.signal == SIGCONT) return;  // who is paused goes on by itself
  if (find(uid) != nullptr) killed_.insert(uid);
  // Of others they make a note.
  host_.clock.after(host_.random.between(kMicrosecond, 100 * kMicrosecond),
                    [this, uid, signal = kill.signal] {
                      SimWorker* worker = find(uid);
                      if (worker == nullptr) return;
                      signal == SIGKILL ? worker->end({-1, signal}) : worker->signal(signal);
                    });
}

void SimAgent::act(const action::AppendDead& dead) {
  require(find(dead.uid) == nullptr, "a live worker is put on the dead list");
  require(!board_->is_dead(dead.uid), "a worker is put on the dead list twice");
  board_->dead.push_back(dead.uid);
  ring_all();
}

void SimAgent::act(const action::WriteProposal& proposal) {
  check_members(proposal.wish.members);
  require(proposal.wish.generation >= board_->proposal.generation, "a generation went back");
  for (const coord::Member& member : proposal.wish.members)
    require(!board_->is_dead(member.uid), "a proposal lists a dead worker");
  board_->proposal = proposal.wish;
  ring_all();
}

void SimAgent::act(const action::WriteTable& first) {
  require(first.table.txn.value() == host_.checkpoint.txn,
          "the group does not begin at the newest checkpoint");
  require(first.table.stop_after_step == host_.stop_file, "a recorded stop is not repeated");
  for (SimSlot& slot : board_->slots) slot.progress.signal = 0;
  board_->stop_recorded = first.table.stop_after_step;
  repeated_ = repeated_ || board_->stop_recorded != 0;
  board_->write_table(first.table);
  ring_all();
}

// Written beside: the group may have ended meanwhile.
void SimAgent::act(const action::RecordStop& record) {
  const std::uint64_t stop = record.stop.stop_after_step;
  host_.clock.after(host_.random.between(100 * kMicrosecond, 20 * kMillisecond),
                    [this, stop, board = board_] {
                      if (board != board_) return;
                      host_.stop_file = stop;
                      board_->stop_recorded = stop;
                      ring_all();
                    });
}

void SimAgent::act(const action::NameDonor& donor) {
  require(donor.request >= board_->heal_request, "a request for a copy went back");
  board_->heal_donor = donor.uid;
  board_->heal_request = donor.request;
  ring_all();
}

void SimAgent::act(const action::Admit& admit) {
  const WorkerUid uid = admit.uid;
  host_.clock.after(host_.random.between(20 * kMicrosecond, options_.slowest_message),
                    [this, uid, newcomer = admit.newcomer] {
                      if (SimWorker* worker = find(uid)) worker->admit(newcomer);
                    });
}

void SimAgent::act(const action::Refuse&) { require(false, "a worker that fits is refused"); }

void SimAgent::act(const action::RecordIncident& record) {
  const coord::Incident& incident = record.incident;
  require(!incident.victims.empty(), "an incident without a victim");
  const auto& p = incident.phases;
  require(p.noticed != 0 && (p.committed == 0 || p.committed >= p.noticed) &&
              (p.rejoined == 0 || p.rejoined >= p.committed),
          "the phases of an incident are out of order");
  incidents_[incident.number] = incident;
}

void SimAgent::act(const action::RestartGroup&) {
  // One that was given up before it was forked may come late, and does not get far.
  const auto left = alive();
  require(std::all_of(left.begin(), left.end(), [](auto* worker) { return worker->boots(); }),
          "the group restarts while a worker of the old one lives");
  ++restarts_;
  start_board();
}

void SimAgent::start_board() {
  board_ = std::make_shared<SimBoard>(host_.plan, options_.sizes);
  host_.computing.clear();
}

void SimAgent::act(const action::RestartZygote&) {
  zygote_ready_ = false;
  const std::uint64_t mine = ++zygote_;
  host_.clock.after(host_.random.between(5 * kMillisecond, 100 * kMillisecond), [this, mine] {
    if (mine != zygote_) return;
    zygote_ready_ = true;
    feed(event::ZygoteReady{});
  });
}

void SimAgent::kill_zygote() {
  if (!zygote_ready_) return;
  zygote_ready_ = false;
  ++zygote_;
  feed(event::ZygoteLost{{-1, SIGKILL}});
}

void SimAgent::act(const action::SetFinalRecorded&) {
  board_->final_recorded = true;
  ring_all();
}

void SimAgent::act(const action::Stop& stop) {
  require(alive().empty(), "the run stops while a worker lives");
  exit_code_ = stop.exit_code;
}

}  // namespace lockstep::simulation
