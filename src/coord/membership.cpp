#include "coord/membership.h"

#include <csignal>
#include <functional>

#include "coord/membership_state.h"

namespace lockstep::coord {

Coordinator::State::State(const Config& settings)
    : config(settings),
      timing(settings.timing),
      donor(timing.heal_retry),
      standstills(config, turn, workers, board),
      incidents(settings.timing.incident_window),
      replacements(settings.max_replacements, settings.give_back_after),
      restarts(settings.max_restarts, settings.no_progress_restarts),
      news(turn) {
  facts.wanted = facts.target = settings.workers;
}

void Coordinator::State::on(const event::Start&) {
  facts.since = turn.now;
  if (config.zygote) act(action::RestartZygote{}, "first start");
}

void Coordinator::State::on(const event::Forked& forked) {
  Worker* worker = find(forked.uid);
  if (worker == nullptr) return act(action::Kill{forked.uid, SIGKILL}, "it is not wanted any more");
  worker->stage = Stage::kForked;
  worker->since = turn.now;
  if (worker->dismissed) act(action::Kill{forked.uid, SIGKILL}, "it is not wanted any more");
}

void Coordinator::State::on(const event::SpawnFailed& failed) {
  const std::optional<Worker> taken = workers.take(failed.uid);
  if (!taken) return;
  const Worker& worker = *taken;
  slots.give_back(worker.slot);
  if (facts.group == Group::kStarting)
    return stop_now(exit_code(ErrorKind::kUnavailable), "cannot start a worker: " + failed.reason);
  if (facts.group != Group::kRunning || worker.dismissed) return;
  on_death(worker, {Cause::kFailedSpawn, "not started: " + failed.reason});
}

void Coordinator::State::on(const event::Hello& hello) {
  Worker* worker = find(hello.uid);
  if (worker == nullptr) return act(action::Kill{hello.uid, SIGKILL}, "it is not wanted any more");
  if (worker->stage < Stage::kGreeted) worker->stage = Stage::kGreeted;
  zygote.has_served();
}

void Coordinator::State::on(const event::Described& described) {
  Worker* worker = find(described.uid);
  if (worker == nullptr || worker->stage >= Stage::kAdmitted || worker->dismissed) return;
  const bool starts = facts.group == Group::kStarting;
  if (!starts && facts.group != Group::kRunning) return;
  std::optional<Error> refusal = described.refusal;
  if (!refusal && starts && facts.target > described.virtual_workers)
    refusal = Error{ErrorKind::kUsage,
                    std::to_string(facts.target) + " workers were asked for" +
                        (config.attached ? "" : " (--nproc-per-node)") + ", but the run has only " +
                        std::to_string(described.virtual_workers) +
                        " virtual workers (--virtual-workers), and each worker needs at least one"};
  if (refusal) {
    act(action::Refuse{worker->uid, *refusal}, "it does not fit the run");
    if (starts && config.attached) return refuse_at_start(*worker, *refusal);
    worker->refused = true;
    if (starts) return stop_now(exit_code(refusal->kind), name(*worker) + ": " + refusal->message);
    print(action::Severity::kError, name(*worker) + " cannot take part: " + refusal->message);
    return;
  }
  facts.virtual_workers = described.virtual_workers;
  facts.elastic = described.elastic;
  worker->stage = Stage::kAdmitted;
  worker->newcomer = !starts;
  act(action::Admit{worker->uid, worker->newcomer},
      starts ? "the group starts" : "it takes the state from a live peer");
}

void Coordinator::State::on(const event::Ready& ready) {
  Worker* worker = find(ready.uid);
  if (worker == nullptr || worker->stage != Stage::kAdmitted || worker->dismissed) return;
  worker->stage = Stage::kReady;
  spawns = {};
  worker->next = ready.next;
  worker->state_hash = ready.state_hash;
  worker->time = ready.time;
  worker->complete = ready.complete;
  if (facts.group == Group::kRunning) order.push_back(worker->uid);
}

void Coordinator::State::on(const event::Stopped& stopped) {
  Worker* worker = find(stopped.uid);
  if (worker != nullptr && !worker->stopped_at) worker->stopped_at = turn.now;
}

void Coordinator::State::on(const event::Continued& continued) {
  Worker* worker = find(continued.uid);
  if (worker == nullptr) return;
  const bool all_were = !goes_on_without(*worker);
  worker->stopped_at.reset();
  worker->stop_told = false;
  if (!all_were) return;
  for (auto& [uid, other] : workers)  // whoever continues all does it one by one
    if (other.stopped_at) other.stopped_at = turn.now;
}

void Coordinator::State::on(const event::Progress& report) {
  if (facts.group == Group::kRunning || facts.group == Group::kStopping ||
      facts.group == Group::kFinishing)
    note_progress(report);
}

void Coordinator::State::on(const event::Left& left) {
  Worker* worker = find(left.uid);
  if (worker == nullptr || !worker->may_leave) return;
  worker->left = true;
  worker->going_at = turn.now;
}

void Coordinator::State::on(const event::Closed& closed) {
  Worker* worker = find(closed.uid);
  if (worker != nullptr && !worker->closed_at) worker->closed_at = turn.now;
}

void Coordinator::State::on(const event::ZygoteReady&) { zygote.ready = true; }

void Coordinator::State::on(const event::ZygoteLost& lost) {
  const bool never_served = last_uid == 0;
  zygote.ready = false;
  if (facts.is_ending()) return;
  drop_unforked("its zygote is gone");
  const bool started = lost.not_started.empty();
  const std::string text =
      started ? "the program ended with " + describe(lost.status) + " before lockstep::init()"
              : lost.not_started;
  if (never_served && lost.status.signal == 0) {  // --help, a wrong option, one without init()
    if (lost.status.code == 0 && !config.asked_for_help) print(action::Severity::kWarning, text);
    return stop_now(lost.status.code, text, started && is_wrong_input(lost.status));
  }
  if (++zygote.losses == 1)
    return act(action::RestartZygote{}, "the zygote ended with " + describe(lost.status));
  if (!zygote.given_up()) return zygote.pause.begin(turn.now);
  const std::string often = text + ", " + std::to_string(zygote.losses) + " times in a row";
  if (facts.group != Group::kRunning) return restart_or_stop(often, is_from_outside(lost.status));
  print(action::Severity::kError, often + "; no more workers are started");
  facts.target = active();
}

template <class Visit>
void Coordinator::State::each_timer_of(Worker& worker, Visit visit) {
  if (worker.stage == Stage::kSpawning && config.zygote && zygote.ready)
    visit(worker.since + timing.fork, [this] {
      zygote.ready = false;
      drop_unforked("its zygote does not answer");
      act(action::RestartZygote{}, "no answer to a fork request for " + seconds(timing.fork));
    });
  if (worker.stage == Stage::kForked)
    visit(worker.since + timing.hello, [this, &worker] {
      evict(worker, Cause::kFailedSpawn, "no hello within " + seconds(timing.hello));
    });
  // Once ready it waits for the others alone, through an evaluation of whatever length.
  const bool joins = facts.group == Group::kRunning && worker.stage >= Stage::kForked &&
                     worker.stage < Stage::kReady;
  if (joins)
    visit(worker.since + timing.join, [this, &worker] {
      evict(worker, Cause::kFailedSpawn, "not ready within " + seconds(timing.join));
    });
  if (worker.closed_at && !worker.left && facts.elastic &&
      (facts.group == Group::kStarting || facts.group == Group::kRunning))
    visit(*worker.closed_at + timing.close_grace, [this, &worker] {
      evict(worker, Cause::kOwnDoing,
            "closed its connection to the launcher and did not end within " +
                seconds(timing.close_grace));
    });
  const bool awaited =
      facts.group != Group::kRestarting && !(config.attached && facts.group == Group::kStarting);
  if (!worker.stopped_at || !awaited) return;
  const bool last =
      facts.elastic && worker.holds_state() && restarts.spent() && !goes_on_without(worker);
  if (last && worker.stop_told) return;
  visit(*worker.stopped_at + timing.stop_grace, [this, &worker, last] {
    const std::string stopped = "stopped for " + seconds(turn.now - *worker.stopped_at);
    if (!last) return evict(worker, Cause::kFromOutside, stopped);
    worker.stop_told = true;
    print(action::Severity::kWarning,
          name(worker) + " is " + stopped +
              ", and nobody else could go on: the run waits for its SIGCONT");
  });
}

void Coordinator::State::kill_late(std::uint64_t waited, const char* for_what) {
  std::string late;
  for (const auto& [uid, worker] : workers)
    if (worker.stage > Stage::kSpawning && !worker.dismissed)
      late += (late.empty() ? "" : ", ") + name(worker);
  if (!late.empty())
    print(action::Severity::kWarning,
          not_ended(late, waited, for_what, config.attached ? "" : " (--shutdown-timeout)"));
  kill_all(SIGKILL, "it has not ended in time");
}

template <class Visit>
void Coordinator::State::each_timer(Visit visit) {
  if (facts.group == Group::kStopped) return;
  for (auto& [uid, worker] : workers)
    if (!worker.dismissed && !worker.evicted) each_timer_of(worker, visit);
  if (facts.group == Group::kStarting)
    visit(facts.since + timing.first_table, [this] {
      stop_now(
          exit_code(ErrorKind::kUnavailable),
          "not all workers were ready within " + seconds(timing.first_table) + missing_ranks());
    });
  if (facts.group == Group::kStarting && config.attached && !anybody_has_come())
    visit(facts.since + timing.attach, [this] {
      stop_now(exit_code(ErrorKind::kUnavailable),
               "no worker has come within " + seconds(timing.attach));
    });
  if (!facts.is_ending() && zygote.pause.until())
    visit(*zygote.pause.until(), [this] {
      zygote.pause.end();
      act(action::RestartZygote{}, "the zygote ended, a while ago");
    });
  if (facts.group == Group::kRunning && spawns.pause.until())
    visit(*spawns.pause.until(), [this] { spawns.pause.end(); });  // then settle() tries again
  if (facts.group == Group::kRunning && orphaned_since)
    visit(*orphaned_since + timing.orphan_grace, [this] {
      restart_or_stop("all workers that could finish the transaction died", blame_outside());
    });
  if (const auto limit = clock.deadline(); limit && facts.group == Group::kRunning)
    visit(*limit, [this] {
      clock.set_up();
      print(action::Severity::kInfo, "the run's time limit is reached after " +
                                         seconds(clock.ran(turn.now)) +
                                         "; it stops after the next step");
    });
  if (facts.group == Group::kRunning && worker_signal_at)
    visit(*worker_signal_at + timing.signal_wait, [this] { answer_worker_signals(); });
  if (waiting_restart)
    visit(waiting_restart->since + timing.signal_wait, [this] {
      const WaitingRestart due = *std::exchange(waiting_restart, std::nullopt);
      restart_or_stop(due.reason, due.from_outside);
    });
  if (orderly_until)
    visit(*orderly_until, [this] {
      orderly_until.reset();
      if (!config.attached) return kill_late(timing.orderly, "they were to leave in order");
      term_until = turn.now + timing.kill_grace;
      kill_all(SIGTERM, "it has not left in time");
    });
  if (term_until)
    visit(*term_until, [this] {
      term_until.reset();
      kill_late(timing.kill_grace, "they were told to end");
    });
  if (facts.group == Group::kStopping && stop_wait_told_at)
    visit(*stop_wait_told_at, [this] { tell_stop_wait(); });
}

void Coordinator::State::fire_timers() {
  // One at a time: what it does may end others.
  for (;;) {
    std::function<void()> due;
    each_timer([&](std::uint64_t at, auto what) {
      if (!due && at <= turn.now) due = what;
    });
    if (!due) break;
    due();
  }
  if (facts.group == Group::kRunning || facts.group == Group::kFinishing) {
    standstills.tell();
    if (const auto hung = standstills.hung())
      evict(workers.at(hung->worker), Cause::kHung, hung->why);
  }
  standstills.tell_slow_start(facts);
}

// Every time that a worker is given, or the group; a run's time limit counts pauses too.
void Coordinator::State::forget_pause(std::uint64_t gap) {
  standstills.skip_pause();
  for (auto& [uid, worker] : workers) {
    worker.since += gap;
    for (auto* at : {&worker.going_at, &worker.stopped_at, &worker.closed_at})
      if (*at) **at += gap;
  }
  facts.since += gap;
  for (auto* at :
       {&orphaned_since, &orderly_until, &term_until, &stop_wait_told_at, &worker_signal_at})
    if (*at) **at += gap;
  if (waiting_restart) waiting_restart->since += gap;
}

void Coordinator::State::settle() {
  end_if_empty();
  if (facts.group == Group::kRunning && facts.elastic) check_survivors();
  if (facts.group == Group::kStarting && facts.target == 0)
    restart_or_stop("no worker is left", blame_outside());
  end_if_empty();
  if (facts.group == Group::kStarting || facts.group == Group::kRunning) spawn_missing();
  if (facts.group == Group::kStarting) write_first_table();
  if (facts.group == Group::kRunning || (facts.group == Group::kStopping && orderly_until))
    propose();
  if (facts.group == Group::kRunning) donor.choose(workers, order, board, turn);
}

Coordinator::Coordinator(const Config& config) : state_(std::make_unique<State>(config)) {}
Coordinator::~Coordinator() = default;

Actions Coordinator::handle(const Event& event, std::uint64_t now_ns) {
  State& s = *state_;
  const std::uint64_t gap = s.turn.now == 0 ? 0 : now_ns - s.turn.now;
  s.turn.now = now_ns;
  s.turn.actions.clear();
  if (s.facts.group == Group::kStopped) return {};
  if (gap > kAgentPause) s.forget_pause(gap);
  std::visit([&](const auto& e) { s.on(e); }, event);
  s.fire_timers();
  s.settle();
  return std::move(s.turn.actions);
}

RunStatus Coordinator::status() const {
  static constexpr const char* kGroups[] = {"starting",  "running",  "restarting",
                                            "finishing", "stopping", "stopped"};
  State& s = *state_;
  const auto members = std::count_if(s.workers.begin(), s.workers.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kMember && !entry.second.dismissed;
  });
  return {kGroups[static_cast<int>(s.facts.group)],
          members,
          s.facts.target,
          s.facts.virtual_workers,
          s.applied,
          s.replacements.left(s.furthest),
          s.config.max_replacements,
          s.restarts.used(),
          s.restarts.most()};
}

std::uint64_t Coordinator::next_deadline(std::uint64_t now_ns) const {
  std::uint64_t next = now_ns + kAgentPause / 2;
  state_->each_timer([&](std::uint64_t at, auto) { next = std::min(next, at); });
  return std::max(next, now_ns);
}

}  // namespace lockstep::coord
