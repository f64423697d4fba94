#include "launcher/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/env.h"
#include "base/exec.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/head_for.h"
#include "launcher/nodes/leader_record.h"
#include "launcher/options/signal_list.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;

// Whoever started us may have ignored or blocked some, which exec keeps: SIGCHLD ignored would hide
// the workers' ends from us.
Result<UniqueFd> open_signals(const std::vector<int>& numbers) {
  const bool nohup = is_ignored(SIGHUP);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : numbers)
    if (number != SIGHUP || !nohup) sigaddset(&set, number);
  reset_signals(set);  // these stay pending where they have come
  // A write to a closed pipe, or beyond `ulimit -f`, is an error to report, not a reason to die.
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return Error{ErrorKind::kUnavailable, std::string("signalfd: ") + std::strerror(errno)};
  return fd;
}

}  // namespace

Agent::Agent(LaunchOptions options, Program program, std::optional<Spawned> spawned,
             std::optional<Attached> attached, Loop loop)
    : options_(std::move(options)),
      program_(std::move(program)),
      attached_(std::move(attached)),
      loop_(std::move(loop)),
      console_(loop_),
      log_sink_([this](std::string_view line) { console_.write(Console::kErr, line); }),
      spawner_(options_, program_, std::move(spawned), loop_,
               [this](coord::Event event) { on_spawner(std::move(event)); }),
      nodes_(make_nodes()),
      hosts_(make_hosts()),
      head_(head_for(options_, program_, spawner_.uses_zygote(), attached_, nodes_.get(),
                     hosts_.get())),
      linked_(program_.linked ? std::make_unique<LinkedRun>(around_linked()) : nullptr) {}

Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::open(LaunchOptions options, Program program,
                                           std::optional<Spawned> spawned,
                                           std::optional<Attached> attached) {
  LOCKSTEP_ASSIGN(Loop loop, Loop::open());
  std::unique_ptr<Agent> agent(new Agent(std::move(options), std::move(program), std::move(spawned),
                                         std::move(attached), std::move(loop)));
  LOCKSTEP_TRY(agent->prepare());
  return agent;
}

std::unique_ptr<NodesRun> Agent::make_nodes() {
  if (options_.nodes.nnodes == 1 || program_.linked) return nullptr;
  return std::make_unique<NodesRun>(NodesRun::Around{options_, loop_,
                                                     [this] { feed(event::Tick{}); },
                                                     [this](int signal, const std::string& by) {
                                                       feed(event::Signal{signal, by});
                                                     },
                                                     failures_});
}

std::unique_ptr<HostsRun> Agent::make_hosts() {
  if (options_.nodes.nnodes == 1 || !program_.linked) return nullptr;
  return std::make_unique<HostsRun>(HostsRun::Around{
      options_, loop_, [this] { feed(event::Tick{}); }, [this] { return linked_->board_fd(); },
      [this] { return linked_->board(); }, [this]() -> Records& { return linked_->records(); },
      [this] { return linked_->directory(); },
      [this](Txn next, std::uint64_t ran_ns) { linked_->begin_records(next, ran_ns); }});
}

LinkedRun::Around Agent::around_linked() {
  return {options_,
          loop_,
          console_,
          workers_,
          background_,
          [this](coord::Event event) { feed(std::move(event)); },
          [this](coord::Event event) { events_.push(std::move(event)); },
          [this] { return head_->status(); },
          [this] { return spawner_.zygote_pid(); },
          [this](const Worker& worker) {
            return waits_for_reader(worker) || logs_->waits_for_disk(worker.local_rank.value());
          },
          [this] { return hosts_ ? std::optional(hosts_->node()) : std::nullopt; }};
}

Status Agent::prepare() {
  // Grandchildren come to us: forked workers, and whatever plain programs leave behind.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return Error{ErrorKind::kUnavailable,
                 std::string("prctl(PR_SET_CHILD_SUBREAPER): ") + std::strerror(errno)};
  if (!linked_) helpers_.leave_alone_who_is_there();
  LOCKSTEP_ASSIGN(signals_, open_signals(stop_signals(options_.signals_to_handle)));
  LOCKSTEP_TRY(loop_.add(signals_.get(), [this] { on_signal(); }));
  LOCKSTEP_ASSIGN(logs_, Logs::open(options_, loop_, console_));
  if (!linked_) LeaderRecord::remove_left();
  if (!linked_ && logs_->folder().empty() && !options_.no_log_files()) {
    auto files = ErrorFiles::open();
    if (files.ok())
      error_files_.emplace(*std::move(files));
    else
      log_warning(files.error().message + "; what workers write of their errors is not reported");
  }
  if (attached_) {
    LOCKSTEP_ASSIGN(arrivals_, Arrivals::open(*attached_, loop_,
                                              [this](Arrival& arrival) { return seat(arrival); }));
  } else if (nodes_) {
    LOCKSTEP_TRY(nodes_->open());
  } else {
    LOCKSTEP_ASSIGN(master_, MasterPort::open(options_, !linked_, loop_));
  }
  if (const std::string bound = binding_variable(process_environment());
      options_.nproc_per_node > 1 && !bound.empty())
    log_warning(bound + " binds the main thread of each worker to the same CPU, so that all " +
                std::to_string(options_.nproc_per_node) +
                " workers share one; unset it, or set OMP_PROC_BIND=false");
  if (linked_) {
    LOCKSTEP_TRY(linked_->open());
    if (hosts_) LOCKSTEP_TRY(hosts_->open());
  } else if (options_.nproc_per_node > 1 && !thread_variable().empty()) {
    log_info(
        "OMP_NUM_THREADS is set to 1 in each worker, as torchrun does; set it yourself for another "
        "number");
  }
  return {};
}

int Agent::run() {
  feed(event::Start{});
  while (!exit_code_) {
    loop_.run_once(next_wake());
    tick();
  }
  shut_down();
  return *exit_code_;
}

void Agent::feed(coord::Event event) {
  events_.push(std::move(event));
  if (feeding_) return;  // obeying may make events: in order, one after the other
  feeding_ = true;
  while (!events_.empty() && !exit_code_) {
    const coord::Event next = std::move(events_.front());
    events_.pop();
    for (const coord::Action& action : head_->handle(next, now())) obey(action);
    if (linked_) linked_->ring_if_due();
    if (!exit_code_ && head_->looks_for_left()) end_left();
    if (nodes_ && !exit_code_ && nodes_->go_on()) events_.push(event::Tick{});
    if (hosts_ && !exit_code_ && hosts_->go_on()) events_.push(event::Tick{});
  }
  feeding_ = false;
}

Deadline Agent::next_wake() const {
  const std::uint64_t time = now(), due = head_->next_deadline(time);
  auto left = std::chrono::nanoseconds(due > time ? due - time : 0);
  if (linked_) left = std::min(left, linked_->pause());
  if (console_.waits_unwatched() || (arrivals_ && arrivals_->anybody_waits()))
    left = std::min<std::chrono::nanoseconds>(left, 20ms);
  for (const auto& next : {helpers_.next(), terminal_stops_.next()})
    if (next) left = std::min<std::chrono::nanoseconds>(left, next->left());
  return Deadline::in(left);
}

void Agent::tick() {
  console_.flush();
  console_.look();
  logs_->go_on();
  if (attached_) watch_attached();
  if (linked_) {
    linked_->look();
    if (linked_->trains()) late_reader_.look(unread_output());
    linked_->tell_steps();
  }
  give_up_lost_children();
  helpers_.look();
  terminal_stops_.look();
  feed(event::Tick{});
  if (linked_) linked_->tell_incidents();
}

// Where a worker may sit in a write(2) now.
std::optional<Console::Target> Agent::unread_output() const {
  for (const auto& [uid, worker] : workers_) {
    if (attached_ && worker.rank != Rank(0)) continue;  // has a console of its own
    if (const auto where = waits_for_reader(worker)) return where;
  }
  return std::nullopt;
}

void Agent::on_signal() {
  signalfd_siginfo info;
  while (!exit_code_ && ::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD)
      on_children();
    else if (spawner_.shares_terminal() && info.ssi_code == SI_KERNEL)
      on_typed(static_cast<int>(info.ssi_signo));
    else
      feed(event::Signal{static_cast<int>(info.ssi_signo)});
  }
}

void Agent::on_typed(int signal) {
  using Meaning = TypedSignals::Meaning;
  if (signal == SIGINT && workers_.begin() != workers_.end()) {
    const Meaning meaning = typed_.interrupted(options_.shutdown_timeout);
    if (meaning == Meaning::kOnceMore)
      log_info("the worker has got ^C; once more within 5 s ends it at once");
    if (meaning != Meaning::kAtOnce) return;
    for (auto& [uid, worker] : workers_) kill_worker(worker, SIGKILL);
  }
  typed_.sent(signal);
  feed(event::Signal{signal});
}

// SIGCHLD comes at the moment when a pidfd would poll readable, and tells of stops too; several may
// be one signal.
void Agent::on_children() {
  // What the watcher has done meanwhile is the fence's doing, and no failure of theirs.
  if (nodes_) feed(event::Tick{});
  const auto ended = [this](pid_t pid) {
    if (nodes_) nodes_->ended(pid);
  };
  while (const auto child = next_child_event(ended)) {
    if (spawner_.zygote_event(*child)) continue;
    if (nodes_ && nodes_->watcher_event(*child)) continue;
    if (hosts_ && hosts_->event(*child)) continue;
    if (Worker* worker = workers_.of_process(child->pid))
      worker_gone(*worker, *child);
    else if (!workers_.unforked().empty())
      early_exits_.insert_or_assign(child->pid, *child);  // perhaps a worker not announced yet
    // else a stray: something that a worker left behind
  }
}

// What is no worker, and nothing that one has left behind.
bool Agent::keeps(pid_t child) const {
  return spawner_.keeps(child) || (nodes_ && nodes_->keeps(child)) ||
         (hosts_ && hosts_->keeps(child));
}

// Before the next attempt.
void Agent::end_left() {
  if (helpers_.sweep([this](pid_t child) { return keeps(child); })) return;
  if (nodes_) nodes_->nothing_is_left();
  head_->nothing_is_left();
  events_.push(event::Tick{});
}

void Agent::on_spawner(coord::Event event) {
  if (const auto* failed = std::get_if<event::SpawnFailed>(&event)) forget_unstarted(failed->uid);
  const auto* forked = std::get_if<event::Forked>(&event);
  const WorkerUid uid = forked != nullptr ? forked->uid : WorkerUid(0);
  const pid_t pid = forked != nullptr ? forked->pid : -1;
  Worker* worker = workers_.find(uid);
  if (worker != nullptr) worker->pid = pid;
  feed(std::move(event));
  if (forked == nullptr) return;
  if (worker == nullptr) return signal_group(pid, SIGKILL);  // given up in the meantime
  if (worker->pending_kill != 0) kill_worker(*worker, worker->pending_kill);
  if (const auto early = early_exits_.extract(pid)) worker_gone(*worker, early.mapped());
  if (workers_.unforked().empty()) early_exits_.clear();
}

// The zygote's late answer; in the middle of act(Spawn) the entry is not whole yet, and goes there.
void Agent::forget_unstarted(WorkerUid uid) {
  Worker* worker = workers_.find(uid);
  if (worker == nullptr || !worker->control) return;
  loop_.remove(worker->control.get());
  workers_.erase(uid);
}

void Agent::worker_gone(Worker& worker, const ChildEvent& child) {
  const WorkerUid uid = worker.uid;
  if (child.kind != ChildEvent::kStopped)
    terminal_stops_.goes_on();
  else if (spawner_.shares_terminal())
    terminal_stops_.stopped(child.status);
  if (child.kind == ChildEvent::kStopped) return feed(event::Stopped{uid});
  if (child.kind == ChildEvent::kContinued) return feed(event::Continued{uid});
  if (typed_.answered()) {
    worker.pid = -1;  // reaped: nothing is to be sent to it any more
    feed(event::Signal{SIGINT});
  }
  const std::size_t before = failures_.size();
  if (!linked_) note_failure(worker, child);
  const bool has_error_file = failures_.size() > before && !failures_.back().error_text.empty();
  bury(worker,
       child.kind == ChildEvent::kExited ? coord::ExitStatus{child.status, 0}
                                         : coord::ExitStatus{-1, child.status},
       has_error_file);
}

// What an attempt's end does to the others is no failure of theirs.
void Agent::note_failure(const Worker& worker, const ChildEvent& child) {
  if (ending_attempt_ || (child.kind == ChildEvent::kExited && child.status == 0)) return;
  failures_.push_back(failure_of(worker, child, posix_env().wall_time_s()));
}

void Agent::bury(Worker& worker, coord::ExitStatus status, bool has_error_file) {
  const WorkerUid uid = worker.uid;
  if (linked_) linked_->read_worker(uid);  // its last words
  if (worker.control) loop_.remove(worker.control.get());
  worker.control.reset();
  if (linked_) feed(linked_->observe(&worker));
  if (!worker.process) helpers_.left_by(worker.pid, status.code == 0);
  workers_.erase(uid);
  feed(event::Exited{uid, status, has_error_file});
}

// Killed, and no child of ours: an adopter in between has reaped it, and nobody will tell us.
void Agent::give_up_lost_children() {
  std::vector<WorkerUid> lost;
  for (const auto& [uid, worker] : workers_) {
    siginfo_t info{};
    if (!worker.process && worker.gone_by && worker.gone_by->passed() &&
        ::waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 &&
        errno == ECHILD)
      lost.push_back(uid);
  }
  for (const WorkerUid uid : lost)
    if (Worker* worker = workers_.find(uid))
      worker_gone(*worker, {ChildEvent::kKilled, worker->pid, SIGKILL});
}

void Agent::kill_worker(Worker& worker, int signal) {
  if (worker.process)
    signal_process(worker.process.get(), signal);
  else if (signal == SIGKILL)
    ::kill(worker.pid, SIGKILL);  // what it has started may clean up after it
  else
    signal_group(worker.pid, signal);
  if (signal == SIGKILL && !worker.gone_by) worker.gone_by = Deadline::in(2s);
}

}  // namespace lockstep::launcher
