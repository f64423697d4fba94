#include "launcher/processes/spawner.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <variant>

#include "base/exec.h"
#include "base/log.h"
#include "coord/channel.h"
#include "coord/descriptors.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;
namespace message = coord::message;

// A single worker may talk to whoever sits at the terminal. One that links Lockstep is forked from
// a zygote, into a session of its own: from there it would read what is typed for others while the
// launcher is in the background.
TerminalUse terminal_of(const LaunchOptions& options, const Program& program, bool spawned) {
  // On several nodes a worker's group is killed before another attempt begins: it has one.
  if (options.nproc_per_node != 1 || options.nodes.nnodes > 1 || spawned ||
      ::isatty(STDIN_FILENO) == 0)
    return TerminalUse::kNone;
  const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);  // negative: of no session, or of another
  if (!program.linked) return foreground < 0 ? TerminalUse::kReads : TerminalUse::kShares;
  return foreground == ::getpgrp() ? TerminalUse::kReads : TerminalUse::kNone;
}

// torchrun puts the local rank in for this word.
std::vector<std::string> with_local_rank(std::vector<std::string> arguments, int local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  for (std::string& argument : arguments)
    for (std::size_t at; (at = argument.find(kMacro)) != std::string::npos;)
      argument.replace(at, kMacro.size(), std::to_string(local_rank));
  return arguments;
}

}  // namespace

message::ForkRequest fork_request(const coord::action::Spawn& spawn, const std::string& run_id,
                                  const Variables& variables) {
  message::ForkRequest request;
  request.request = spawn.uid.value();
  request.uid = spawn.uid;
  request.slot = spawn.slot;
  request.rank = spawn.rank;
  request.local_rank = spawn.local_rank;
  request.world_size = spawn.world_size;
  request.restart_count = spawn.restart_count;
  request.max_restarts = spawn.max_restarts;
  request.newcomer = spawn.newcomer;
  request.run_id = run_id;
  request.environment = variables;
  return request;
}

Spawner::Spawner(const LaunchOptions& options, const Program& program,
                 std::optional<Spawned> spawned, Loop& loop, Feed feed)
    : options_(options),
      program_(program),
      loop_(loop),
      feed_(std::move(feed)),
      terminal_(terminal_of(options, program, spawned.has_value())),
      spawned_(std::move(spawned)) {}

Spawner::~Spawner() { close(); }

UniqueFd Spawner::start(const coord::action::Spawn& spawn, const Variables& variables, int board,
                        const Outputs& outputs) {
  if (uses_zygote()) return fork_worker(spawn, variables, board, outputs);
  if (program_.linked) return execute_worker(spawn, variables, board, outputs);
  execute_plain(spawn, variables, outputs);
  return {};
}

UniqueFd Spawner::fork_worker(const coord::action::Spawn& spawn, const Variables& variables,
                              int board, const Outputs& outputs) {
  auto ends = coord::make_channel();
  if (!ends.ok()) {
    feed_(event::SpawnFailed{spawn.uid, ends.error().message});
    return {};
  }
  requests_[spawn.uid.value()] = spawn.uid;
  const int descriptors[] = {ends->second.get(), board, outputs.out.get(), outputs.err.get()};
  // A zygote that takes nothing is dead or stopped: its end is told by its exit, its silence by the
  // coordinator's deadline.
  if (auto sent = coord::send(zygote_.get(), fork_request(spawn, options_.run_id, variables),
                              Deadline::in(0s), descriptors);
      !sent.ok())
    log_debug("fork request: " + sent.error().message);
  return std::move(ends->first);
}

UniqueFd Spawner::execute_worker(const coord::action::Spawn& spawn, const Variables& variables,
                                 int board, const Outputs& outputs) {
  auto ends = coord::make_channel();
  if (!ends.ok()) {
    feed_(event::SpawnFailed{spawn.uid, ends.error().message});
    return {};
  }
  auto& [own, theirs] = *ends;
  std::vector<std::string> changes = to_entries(variables);
  changes.push_back(std::string(coord::kWorkerVariable) + "=" + std::to_string(theirs.get()));
  const bool first = spawn.rank == Rank(0) && !main_spoke_;
  changes.push_back(std::string(coord::kLaterMainVariable) + "=" + (first ? "" : "1"));
  for (std::string& entry : linked_program_variables()) changes.push_back(std::move(entry));
  const SpawnSpec spec{
      program_.file,     program_.arguments, environment_with(changes, worker_variable_names()),
      outputs.out.get(), outputs.err.get(),  {theirs.get()},
      terminal_};
  auto pid = spawn_process(spec);
  if (!pid.ok()) {
    feed_(event::SpawnFailed{spawn.uid, pid.error().message});
    return {};
  }
  main_spoke_ = main_spoke_ || first;
  const int descriptors[] = {board};
  if (auto sent = coord::send(own.get(), fork_request(spawn, options_.run_id, variables),
                              Deadline::in(1s), descriptors);
      !sent.ok())
    log_debug("birth message: " + sent.error().message);  // its exit follows
  feed_(event::Forked{spawn.uid, *pid});
  return std::move(own);
}

void Spawner::execute_plain(const coord::action::Spawn& spawn, const Variables& variables,
                            const Outputs& outputs) {
  std::vector<std::string> changes = to_entries(variables);
  changes.push_back(std::string(coord::kPlainVariable) + "=" + program_.name);
  if (options_.nproc_per_node > 1)
    for (std::string& entry : thread_variable()) changes.push_back(std::move(entry));
  const SpawnSpec spec{program_.file,
                       with_local_rank(program_.arguments, spawn.local_rank.value()),
                       environment_with(changes, worker_variable_names()),
                       outputs.out.get(),
                       outputs.err.get(),
                       inherited_ < 0 ? std::vector<int>() : std::vector<int>{inherited_},
                       terminal_,
                       pid_slot_};
  auto pid = spawn_process(spec);
  if (pid.ok())
    feed_(event::Forked{spawn.uid, *pid});
  else
    feed_(event::SpawnFailed{spawn.uid, pid.error().message});
}

void Spawner::restart_zygote() {
  close();
  if (spawned_) return take_spawned_zygote();
  auto ends = coord::make_channel();
  if (!ends.ok()) {
    return feed_(event::ZygoteLost{{exit_code(ends.error().kind), 0},
                                   "cannot start the program: " + ends.error().message});
  }
  auto& [own, theirs] = *ends;
  std::vector<std::string> changes = linked_program_variables();
  changes.push_back(std::string(coord::kZygoteVariable) + "=" + std::to_string(theirs.get()));
  UniqueFd quiet;  // what main prints before init() is printed once
  if (main_spoke_) quiet = UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const SpawnSpec spec{program_.file,
                       program_.arguments,
                       environment_with(changes, worker_variable_names()),
                       quiet ? quiet.get() : 1,
                       2,
                       {theirs.get()},
                       terminal_};
  auto pid = spawn_process(spec);
  if (!pid.ok()) {
    return feed_(event::ZygoteLost{{exit_code(pid.error().kind), 0}, pid.error().message});
  }
  watch_zygote({std::move(own), *pid});
}

// What spawn() was given to call is in that process alone.
void Spawner::take_spawned_zygote() {
  if (spawned_->zygote.socket) return watch_zygote(std::exchange(spawned_->zygote, {}));
  if (auto spare = spare_.take()) return watch_zygote(*std::move(spare));
  feed_(event::ZygoteLost{{exit_code(ErrorKind::kUnavailable), 0},
                          "the process from which lockstep::spawn() forks its workers is gone"});
}

void Spawner::watch_zygote(Zygote zygote) {
  zygote_pid_ = zygote.pid;
  zygote_ = std::move(zygote.socket);
  if (auto added = loop_.add(zygote_.get(), [this] { read_zygote(); }); !added.ok())
    log_error(added.error().message);
}

void Spawner::read_zygote() {
  while (zygote_) {
    auto received = coord::receive(zygote_.get(), Deadline::in(0s));
    if (!received.ok()) {
      if (received.error().kind != ErrorKind::kTimedOut)
        loop_.remove(zygote_.get());  // its exit tells the rest
      return;
    }
    if (const auto* answer = std::get_if<message::Forked>(&received->message)) {
      forked(*answer);
    } else if (const auto* ready = std::get_if<message::ZygoteReady>(&received->message)) {
      if (ready->version != coord::kProtocolVersion) return refuse_zygote(ready->version);
      main_spoke_ = true;
      feed_(event::ZygoteReady{});
      if (spawned_ && zygote_) spare_.ask(zygote_.get());
    }
  }
}

void Spawner::refuse_zygote(std::uint32_t version) {
  close();
  const Error error = coord::wrong_version(version, coord::kProtocolVersion);
  feed_(event::ZygoteLost{{exit_code(error.kind), 0}, error.message});
}

void Spawner::forked(const message::Forked& answer) {
  if (answer.request == SpareZygote::kRequest) return spare_.forked(answer.pid);
  const auto found = requests_.find(answer.request);
  if (found == requests_.end()) return;
  const WorkerUid uid = found->second;
  requests_.erase(found);
  if (answer.pid > 0)
    feed_(event::Forked{uid, answer.pid});
  else
    feed_(event::SpawnFailed{uid, std::string("fork: ") + std::strerror(-answer.pid)});
}

bool Spawner::zygote_event(const ChildEvent& event) {
  if (event.pid <= 0 || !keeps(event.pid)) return false;
  if (event.kind == ChildEvent::kStopped)
    signal_group(event.pid, SIGCONT);  // nobody has a reason to stop it
  if (event.kind == ChildEvent::kStopped || event.kind == ChildEvent::kContinued) return true;
  ::kill(-event.pid, SIGKILL);  // what main() has started before init()
  if (spare_.ended(event.pid)) {
    if (zygote_) spare_.ask(zygote_.get());
    return true;
  }
  read_zygote();                     // answers that it sent before
  if (zygote_pid_ < 0) return true;  // refused for one of them
  loop_.remove(zygote_.get());
  zygote_.reset();
  zygote_pid_ = -1;
  requests_.clear();  // the coordinator asks anew
  feed_(event::ZygoteLost{event.kind == ChildEvent::kExited ? coord::ExitStatus{event.status, 0}
                                                            : coord::ExitStatus{-1, event.status}});
  return true;
}

// Whoever was forked is out of the zygote's group once its answer is there, and not before.
void Spawner::close() {
  // It holds no state: nothing to wait for. Reaped with all others; no longer known by its pid.
  if (zygote_pid_ > 0) signal_group(zygote_pid_, SIGKILL);
  zygote_pid_ = -1;
  if (zygote_) end_unheard();
  if (zygote_) loop_.remove(zygote_.get());
  zygote_.reset();
  spare_.forget_unless_forked();
  requests_.clear();
}

// Workers whose pids nobody has read yet: nobody would end them.
void Spawner::end_unheard() {
  while (true) {
    const auto received = coord::receive(zygote_.get(), Deadline::in(0s));
    if (!received.ok()) return;
    const auto* answer = std::get_if<message::Forked>(&received->message);
    if (answer == nullptr) continue;
    if (answer->request == SpareZygote::kRequest)
      spare_.forked(answer->pid);
    else if (is_child(answer->pid))
      signal_group(answer->pid, SIGKILL);
  }
}

}  // namespace lockstep::launcher
