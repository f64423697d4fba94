#include "coord/run_keeper.h"

#include <algorithm>

#include "base/seconds.h"
#include "coord/timers.h"
#include "coord/words.h"

namespace lockstep::coord {

RunKeeper::RunKeeper(const Config& config, const std::vector<std::uint32_t>& workers,
                     RunFacts& facts, Turn& turn, ToHosts to_hosts, TakeOut take_out, Bring bring)
    : config_(config),
      facts_(facts),
      turn_(turn),
      to_hosts_(std::move(to_hosts)),
      take_out_(std::move(take_out)),
      bring_(std::move(bring)),
      hosts_(workers.size()),
      incidents_(config.timing.incident_window),
      replacements_(config.max_replacements, config.give_back_after),
      restarts_(config.max_restarts, config.no_progress_restarts),
      news_(turn),
      attach_(config.timing.attach) {
  facts_ = first_facts(workers);
  facts_.replacements_left = config.max_replacements;
}

void RunKeeper::tell(std::size_t host, const Order& order) {
  tell(std::vector{static_cast<HostIndex>(host)}, order);
}

void RunKeeper::tell(const std::vector<HostIndex>& hosts, const Order& order) {
  ++ordered_;
  for (const HostIndex host : hosts) hosts_[host].ordered = ordered_;
  to_hosts_(hosts, order);
}

void RunKeeper::tell_all(const Order& order) {
  std::vector<HostIndex> all;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (facts_.hosts[h].standing != Standing::kOut) all.push_back(static_cast<HostIndex>(h));
  tell(all, order);
}

bool RunKeeper::works() const {
  return facts_.group == Group::kStarting || facts_.group == Group::kRunning;
}

bool RunKeeper::holds_state(const WorkerView& worker) const {
  const bool is_seated = facts_.is_training() && worker.stage == Stage::kReady && !worker.newcomer;
  return worker.holds_state() || (is_seated && !worker.dismissed);
}

bool RunKeeper::anybody_holds_state(std::size_t host) const {
  return hosts_[host].view.any([this](const WorkerView& worker) { return holds_state(worker); });
}

std::uint32_t RunKeeper::members() const {
  std::uint32_t count = 0;
  hosts_.each([&](const WorkerView& worker) {
    count += worker.stage == Stage::kMember && !worker.dismissed ? 1 : 0;
  });
  return count;
}

void RunKeeper::hear(std::size_t host, const HostView& view, const Report& report) {
  HostFacts& facts = facts_.hosts[host];
  if (facts.standing == Standing::kOut) return;
  const bool is_numbered = !std::holds_alternative<report::Seen>(report);
  if (view.reported != facts.heard + (is_numbered ? 1 : 0)) return;
  facts.heard = view.reported;
  if (!is_numbered && view.now < hosts_[host].view.now) return;
  take(host, view);
  // What is the run's business is so also while its group is on its way to begin again.
  if (hosts_[host].is_of_this_board() || std::holds_alternative<report::Told>(report))
    std::visit([&](const auto& what) { hear(host, what); }, report);
}

void RunKeeper::look_at(std::size_t host, const HostView& view) {
  const HostFacts& facts = facts_.hosts[host];
  const bool is_news = view.reported == facts.heard && view.now >= hosts_[host].view.now;
  if (is_news && facts.standing != Standing::kOut) take(host, view);
}

void RunKeeper::take(std::size_t host, const HostView& view) {
  RunHost& known = hosts_[host];
  known.view = view;
  if (!known.is_of_this_board()) known.view.workers.clear();
  for (WorkerView& worker : known.view.workers) {
    // By this clock: as long ago as they say.
    WorkerProgress& seen = worker.seen;
    for (std::uint64_t* stamp : {&seen.abort_seen_ns, &seen.regrouped_ns, &seen.resumed_ns,
                                 &seen.committed_ns, &seen.fault_fired_ns})
      if (*stamp != 0) *stamp += turn_.now - view.now;
    note_member(host, worker);
  }
  HostFacts& facts = facts_.hosts[host];
  facts.stay = view.stay;
  facts.goes_on = view.goes_on;
  facts.waits = view.waits;
}

// Also as it is lost: between two views it may have come in, applied a transaction, and died.
void RunKeeper::note_member(std::size_t host, const WorkerView& worker) {
  hosts_[host].was_member = hosts_[host].was_member || holds_state(worker);
  const std::uint64_t applied = worker.seen.applied;
  hosts_[host].applied = std::max(hosts_[host].applied, applied);
  applied_ = std::max(applied_, applied);
  furthest_ = std::max(furthest_, applied_);
}

std::string RunKeeper::unlike(std::size_t host, const event::Described& described) const {
  const std::string difference = first_ ? difference_of_nodes(*first_, {host, described.what}) : "";
  if (!difference.empty())
    return "what is about to run on node " + std::to_string(host) + " is not what runs on node " +
           std::to_string(first_->node) + ": " + difference;
  return "what is about to run on node " + std::to_string(host) +
         " is not what runs on the others: options, model, data, libtorch, threads or CPU differ; "
         "compare manifest.json in the nodes' run directories, and give the same command on all";
}

void RunKeeper::hear(std::size_t host, const report::Described& report) {
  const bool starts = facts_.group == Group::kStarting;
  if (!starts && facts_.group != Group::kRunning) return;
  const event::Described& described = report.what;
  const WorkerView* found = hosts_[host].view.find(described.uid);
  if (found == nullptr) return;
  const WorkerView worker = *found;
  std::optional<Error> refusal = described.refusal;
  if (!refusal && starts && facts_.target() > described.virtual_workers)
    refusal = Error{ErrorKind::kUsage,
                    std::to_string(facts_.target()) + " workers were asked for" +
                        (config_.attached ? "" : " (--nproc-per-node)") +
                        ", but the run has only " + std::to_string(described.virtual_workers) +
                        " virtual workers (--virtual-workers), and each worker needs at least one"};
  const bool is_unlike =
      !refusal && is_several() && program_.value_or(described.program) != described.program;
  if (is_unlike) refusal = Error{ErrorKind::kUsage, unlike(host, described)};
  if (!refusal) {
    program_ = described.program;
    if (!first_ && !described.what.empty()) first_ = NodeDescription{host, described.what};
    facts_.virtual_workers = described.virtual_workers;
    facts_.elastic = described.elastic;
    return tell(host, order::Admit{described.uid, !starts});
  }
  tell(host, order::Refuse{described.uid, *refusal});
  const std::string name = worker_name(report.rank.value(), described.uid.value());
  if (starts && config_.attached) return news_.tell_refusal(name, worker, *refusal);
  if (starts)
    return stop_now(exit_code(refusal->kind), (is_unlike ? "" : name + ": ") + refusal->message);
  turn_.print(action::Severity::kError, name + " cannot take part: " + refusal->message);
}

void RunKeeper::hear(std::size_t host, const report::Ready& ready) {
  const bool comes = facts_.hosts[host].standing != Standing::kGoing;
  std::vector<WorkerUid>& ranks = hosts_[host].ranks;
  const bool is_news = std::ranges::find(ranks, ready.uid) == ranks.end();
  if (facts_.group == Group::kRunning && comes && is_news) ranks.push_back(ready.uid);
}

void RunKeeper::hear(std::size_t host, const report::Seen&) {
  const HostView& view = hosts_[host].view;
  note_last_step(host, view.last_step);
  news_.tell_held(applied_, facts_.is_ending());
  is_several() ? void(has_seen_ = true) : see_survivors();
}

// Of all hosts: what has become of incidents, and of a scale.
void RunKeeper::see_survivors() {
  std::vector<WorkerProgress> survivors;
  std::uint64_t applied_by_all = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t members = 0;
  hosts_.each([&](const WorkerView& worker) {
    if (!holds_state(worker)) return;
    survivors.push_back(worker.seen);
    applied_by_all = std::min(applied_by_all, worker.seen.applied);
    members += worker.leaving() ? 0 : 1;
  });
  if (survivors.empty()) return;
  tell_scaled(members);
  record(incidents_.observe(survivors, applied_by_all, members >= facts_.target(), turn_.now),
         "an incident has moved on");
}

void RunKeeper::hear(std::size_t host, const report::Told& told) {
  std::visit([&](const auto& what) { hear(host, what); }, told.what);
}

void RunKeeper::hear(std::size_t host, const report::LoopEnded& ended) {
  if (!works()) return;
  facts_.hosts[host].want_one_less();
  ended_early_ += (ended_early_.empty() ? "" : ", ") + ended.name;
}

// Nothing is lost with it, and its place waits: a wrong command of one shall not end the others.
void RunKeeper::hear(std::size_t, const report::LostAtStart& lost) {
  if (!works()) return;
  if (!anybody_has_come())
    return stop_now(exit_code(ErrorKind::kUnavailable), lost.fact + ", and nobody else is there",
                    lost.told);
  if (!lost.told)
    turn_.print(action::Severity::kWarning,
                lost.fact + "; the others wait for the same command again");
}

void RunKeeper::hear(std::size_t host, const report::NoMoreWorkers& lost) {
  if (facts_.is_ending()) return;
  const std::string text = at(host) + lost.text;
  if (facts_.group != Group::kRunning) return restart_or_stop(text, lost.from_outside);
  turn_.print(action::Severity::kError, text + "; no more workers are started");
  facts_.hosts[host].target = hosts_[host].view.active();
  hosts_[host].cannot_grow = true;
}

// Others may be on their way, but not for as long.
void RunKeeper::on(const event::StarterGone&) {
  attach_ = std::min(attach_, turn_.now - began_at_ + config_.timing.attach_orphaned);
}

template <class Visit>
void RunKeeper::each_timer(Visit visit) {
  const Timing& timing = config_.timing;
  const bool starting = facts_.group == Group::kStarting;
  const bool running = facts_.group == Group::kRunning;
  if (starting)
    visit(began_at_ + timing.first_table, [this] {
      stop_now(exit_code(ErrorKind::kUnavailable), "not all workers were ready within " +
                                                       seconds(config_.timing.first_table) +
                                                       missing_ranks());
    });
  if (starting && config_.attached && !anybody_has_come())
    visit(began_at_ + attach_, [this] {
      stop_now(exit_code(ErrorKind::kUnavailable), "no worker has come within " + seconds(attach_));
    });
  for (std::size_t h = 0; facts_.is_training() && h < hosts_.size(); ++h)
    if (hosts_[h].orphaned_since)
      visit(*hosts_[h].orphaned_since + timing.orphan_grace, [this, h] {
        if (is_several()) return take_out(h);
        const char* reason = "all workers that could finish the transaction died";
        facts_.in_order ? give_leavers_up(reason) : restart_or_stop(reason, blame_outside());
      });
  if (facts_.is_training() && none_since_)
    visit(*none_since_ + timing.orphan_grace, [this] {
      none_since_.reset();
      give_up();
    });
  if (const auto limit = clock_.deadline(); running && limit)
    visit(*limit, [this] {
      clock_.set_up();
      turn_.print(action::Severity::kInfo, "the run's time limit is reached after " +
                                               seconds(clock_.ran(turn_.now)) +
                                               "; it stops after the next step");
    });
  if (waiting_restart_)
    visit(waiting_restart_->since + timing.signal_wait, [this] {
      const WaitingRestart due = *std::exchange(waiting_restart_, std::nullopt);
      restart_or_stop(due.reason, due.from_outside);
    });
}

bool RunKeeper::fire_timer() {
  return fire_one(turn_.now, [this](const auto& visit) { each_timer(visit); });
}

std::uint64_t RunKeeper::next_deadline(std::uint64_t until) {
  return earliest(until, [this](const auto& visit) { each_timer(visit); });
}

// Every time that the group is given; a run's time limit counts pauses too.
void RunKeeper::forget_pause(std::uint64_t gap) {
  began_at_ += gap;
  for (RunHost& host : hosts_)
    if (host.orphaned_since) *host.orphaned_since += gap;
  if (none_since_) *none_since_ += gap;
  if (waiting_restart_) waiting_restart_->since += gap;
}

void RunKeeper::look() {
  if (std::exchange(has_seen_, false)) see_survivors();
  if (facts_.in_order) check_leavers();
  end_if_empty();
  if (is_several()) look_at_hosts();
  if (facts_.group == Group::kRunning && facts_.elastic) check_survivors();
  if (facts_.group == Group::kStarting && facts_.target() == 0)
    restart_or_stop("no worker is left", blame_outside());
  facts_.replacements_left = replacements_left();
  end_if_empty();
}

void RunKeeper::write_tables() {
  if (facts_.group == Group::kStarting) write_first_table();
  if (facts_.is_training()) propose();
  if (is_several() && facts_.group == Group::kRunning) choose_server();
}

}  // namespace lockstep::coord
