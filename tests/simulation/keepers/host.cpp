// An agent: its keeper, its board, and what it does for both.
#include <csignal>
#include <utility>

#include "run.h"

namespace lockstep::simulation {

namespace action = coord::action;
namespace event = coord::event;
namespace order = coord::order;

SimHost::SimHost(Run& run, std::size_t index, Stay stay)
    : board(std::make_shared<Board>()),
      run_(run),
      index_(index),
      coordinator_(run.config, place()),
      talk_(stay.host,
            [this](const std::string& frame) { run_.send(index_, *leader_, true, frame); }),
      agent_({.silence = kSilence, .stagger = kStagger},
             {static_cast<std::uint16_t>(index), 100 + index}, now(), run.blunder) {
  board->stay = stay;
}

// By a clock of its own.
std::uint64_t SimHost::now() const { return run_.clock.now() + 7 * kSecond * (index_ + 1); }

coord::HostPlace SimHost::place() {
  return {.self = static_cast<std::uint16_t>(index_),
          .workers = run_.shape.workers,
          .to_run = [this](const coord::HostView& view, const coord::Report& report) {
            talk_.report(view, report);
          }};
}

void SimHost::start() {
  feed(event::Start{});
  tick();
}

void SimHost::feed(const coord::Event& event) {
  turn([&](coord::Coordinator& it) { return it.handle(event, now()); });
}

void SimHost::turn(const std::function<coord::Actions(coord::Coordinator&)>& what) {
  require(!std::exchange(in_turn_, true), "a turn within a turn");
  const coord::Actions actions = what(coordinator_);
  in_turn_ = false;
  obey(actions);
  serve();
}

void SimHost::obey(const coord::Actions& actions) {
  for (const coord::Action& each : actions) {
    const auto* print = std::get_if<action::Print>(&each.what);
    run_.note("host " + std::to_string(index_) + ": action " + std::to_string(each.what.index()) +
              " (" + each.reason + ")" + (print != nullptr ? " " + print->text : ""));
    std::visit([this](const auto& what) { act(what); }, each.what);
  }
}

event::Progress SimHost::observe() const {
  event::Progress report;
  for (const auto& [uid, worker] : workers_) {
    if (worker->board != board) continue;
    report.workers.push_back(worker->seen);
    report.workers.back().uid = uid;
  }
  for (const auto& [txn, table] : board->tables)
    if (txn + coord::kTables > board->tables.rbegin()->first) report.tables.push_back(table);
  return report;
}

void SimHost::tick() {
  if (is_lost || run_.is_over()) return;
  feed(observe());
  talk_.look(coordinator_.view());  // its heartbeat
  const std::uint64_t pause = run_.quiet() > 10 * kSecond ? 900 * kMillisecond : 10 * kMillisecond;
  run_.clock.after(pause, [this] { tick(); });
}

std::vector<std::shared_ptr<SimWorker>> SimHost::alive() const {
  std::vector<std::shared_ptr<SimWorker>> found;
  for (const auto& [uid, worker] : workers_)
    if (worker->life != SimWorker::Life::kGone) found.push_back(worker);
  return found;
}

std::vector<std::shared_ptr<SimWorker>> SimHost::members() const {
  std::vector<std::shared_ptr<SimWorker>> found;
  for (const auto& worker : alive())
    if (worker->life == SimWorker::Life::kMember && worker->board == board &&
        board->table(worker->txn) != nullptr)
      found.push_back(worker);
  return found;
}

void SimHost::append(const std::vector<Stay>& out) {
  if (is_lost || out.empty()) return;
  turn([&](coord::Coordinator& it) { return it.append(out, run_.clock.now()); });
}

void SimHost::lose() {
  is_lost = true;
  for (const auto& worker : alive()) worker->life = SimWorker::Life::kGone;
}

// The agent reaps it a moment later.
void SimHost::kill(SimWorker& worker, coord::ExitStatus status) {
  if (worker.life == SimWorker::Life::kGone) return;
  worker.life = SimWorker::Life::kGone;
  run_.clock.after(run_.random.between(10 * kMicrosecond, 2 * kMillisecond),
                   [this, uid = worker.uid, status] {
                     if (is_lost || run_.is_over()) return;
                     feed(observe());
                     workers_.erase(uid);
                     feed(event::Exited{uid, status});
                   });
}

void SimHost::act(const action::Spawn& spawn) {
  require(run_.uids.insert(spawn.uid).second, "a uid is used again");
  require(coord::stay_of(spawn.uid) == coordinator_.view().stay, "a uid is of another stay");
  require(spawn.rank.value() < spawn.world_size, "a rank beyond the world");
  for (const auto& worker : alive())
    require(worker->board != board || worker->slot != spawn.slot, "a slot of a live worker");
  for (const auto& member : members())
    for (auto at = board->tables.lower_bound(member->txn); at != board->tables.end(); ++at)
      for (const coord::Member& listed : at->second.members)
        require(coord::stay_of(listed.uid) != board->stay || listed.slot != spawn.slot,
                "a slot that a table of somebody who is behind lists");
  run_.clock.after(run_.random.between(kMillisecond, 4 * kMillisecond), [this, spawn, of = board] {
    if (is_lost || run_.is_over()) return;
    if (spawn.newcomer && run_.random.chance(0.03)) {
      run_.see("failed spawns");
      return feed(event::SpawnFailed{spawn.uid, "no memory"});
    }
    const auto worker = std::make_shared<SimWorker>();
    worker->uid = spawn.uid;
    worker->slot = spawn.slot;
    worker->board = of;
    worker->seen.uid = spawn.uid;
    workers_[spawn.uid] = worker;
    feed(event::Forked{spawn.uid, 1});
    run_.clock.after(run_.random.between(kMillisecond, 10 * kMillisecond), [this, worker] {
      if (worker->life == SimWorker::Life::kGone || is_lost) return;
      feed(event::Hello{worker->uid});
      feed(event::Described{worker->uid, run_.shape.virtual_workers, true, std::nullopt});
    });
  });
}

void SimHost::act(const action::Kill& kill) {
  run_.clock.after(run_.random.between(kMicrosecond, 100 * kMicrosecond), [this, kill] {
    const auto found = workers_.find(kill.uid);
    if (found == workers_.end() || is_lost || kill.signal == SIGCONT) return;
    this->kill(*found->second, {-1, kill.signal});
  });
}

void SimHost::act(const action::AppendDead& dead) {
  for (const WorkerUid uid : board->dead) require(uid != dead.uid, "appended twice");
  for (const auto& worker : alive()) require(worker->uid != dead.uid, "a live worker is appended");
  board->dead.push_back(dead.uid);
}

void SimHost::act(const action::WriteTable& first) {
  board->stop_recorded = first.table.stop_after_step;
  if (!first.here) return;
  run_.check_table(*board, first.table);
  board->tables[first.table.txn.value()] = first.table;
}

void SimHost::act(const action::RecordStop& record) {
  run_.see("recorded stops");
  run_.clock.after(run_.random.between(100 * kMicrosecond, 20 * kMillisecond),
                   [this, stop = record.stop.stop_after_step, of = board] {
                     stop_file = stop;
                     of->stop_recorded = stop;
                   });
}

void SimHost::act(const action::NameDonor& donor) {
  board->donor = donor.uid;
  board->request = donor.request;
}

void SimHost::act(const action::Admit& admit) {
  run_.clock.after(run_.random.between(kMillisecond, 10 * kMillisecond), [this, admit] {
    const auto found = workers_.find(admit.uid);
    if (found == workers_.end() || is_lost || run_.is_over()) return;
    const std::shared_ptr<SimWorker> worker = found->second;
    if (worker->life == SimWorker::Life::kGone) return;
    worker->newcomer = admit.newcomer;
    worker->life = admit.newcomer ? SimWorker::Life::kWaits : SimWorker::Life::kMember;
    worker->txn = checkpoint;
    feed(event::Ready{worker->uid,
                      Txn(admit.newcomer ? 0 : checkpoint),
                      admit.newcomer ? 0 : checkpoint + 1,
                      {.ran = 0, .limit = run_.shape.time_limit, .stop_after_step = stop_file},
                      false});
    poll(worker);
  });
}

void SimHost::act(const action::RestartGroup& restart) {
  for (const auto& worker : alive())
    require(worker->life == SimWorker::Life::kBooting, "a fresh board while an old worker lives");
  // Until all are gone what comes is a host's next stay, told before the group was to start anew.
  const bool is_old = coordinator_.facts().group == coord::Group::kRestarting;
  const std::uint64_t attempt =
      is_old ? board->attempt : static_cast<std::uint64_t>(restart.restart_count);
  if (attempt == board->attempt) run_.check_return(*board);
  board = std::make_shared<Board>();
  board->attempt = attempt;
  board->stay = coordinator_.view().stay;
}

void SimHost::act(const action::SetFinalRecorded&) { board->final_recorded = true; }

}  // namespace lockstep::simulation
