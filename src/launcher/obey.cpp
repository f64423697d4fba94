// The agent does what the coordinator says.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/log.h"
#include "coord/channel.h"
#include "launcher/agent.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace action = coord::action;
namespace event = coord::event;
namespace message = coord::message;

}  // namespace

void Agent::obey(const coord::Action& action) {
  std::visit([this](const auto& what) { act(what); }, action.what);
}

void Agent::send_to(WorkerUid uid, const coord::Message& text, std::span<const int> descriptors) {
  Worker* worker = workers_.find(uid);
  if (worker == nullptr || !worker->control) return;
  // Never wait for a worker: its socket has room for every answer that it may be owed.
  if (auto sent = coord::send(worker->control.get(), text, Deadline::in(0s), descriptors);
      !sent.ok())
    log_debug("worker " + std::to_string(uid.value()) + ": " + sent.error().message);
}

void Agent::ring_workers() {
  if (!board_) return;
  for (const auto& [uid, worker] : workers_) ring(board_->view().slot(worker.slot).bell);
}

// In its log folder, or in one of ours.
void Agent::give_error_file(Worker& worker, const std::string& folder) const {
  worker.error_file_stays = !folder.empty();
  if (worker.error_file_stays) worker.error_file = folder + "/error.json";
  if (worker.error_file_stays || !error_files_) return;
  auto name = error_files_->name_for(attempt_, worker.local_rank.value());
  if (name.ok()) worker.error_file = *std::move(name);
}

void Agent::act(const action::Spawn& spawn) {
  if (attached_) {
    places_.insert_or_assign(spawn.rank, spawn);
    return;
  }
  auto outputs = logs_->open_worker(attempt_, spawn.local_rank.value(), spawn.rank.value());
  if (!outputs.ok()) return feed(event::SpawnFailed{spawn.uid, outputs.error().message});
  Worker& worker = workers_.add(spawn);
  give_error_file(worker, outputs->folder);
  const Variables variables = worker_variables(options_, spawn, master_->number(),
                                               master_->serves_store(), worker.error_file);
  UniqueFd control = spawner_.start(spawn, variables, board_ ? board_->fd() : -1, *outputs);
  const WorkerUid uid = spawn.uid;
  Worker* started = workers_.find(uid);  // starting may tell of ends, and entries go with them
  if (started == nullptr) return;
  if (!control) {
    if (started->pid < 0) workers_.erase(uid);  // not started; plain programs have no socket
    return;
  }
  started->control = std::move(control);
  if (auto added = loop_.add(started->control.get(), [this, uid] { read_worker(uid); });
      !added.ok())
    log_error(added.error().message);
}

void Agent::act(const action::Kill& kill) {
  if (close_place(kill.uid)) return feed(event::SpawnFailed{kill.uid, "nobody has come"});
  Worker* worker = workers_.find(kill.uid);
  if (worker == nullptr) return;
  ending_attempt_ = true;
  if (typed_.take_sent(kill.signal)) return;
  if (worker->pid > 0)
    kill_worker(*worker, kill.signal);
  else
    worker->pending_kill = kill.signal;
  // A stopped process takes no TERM until it goes on.
  if (worker->pid > 0 && kill.signal != SIGKILL) kill_worker(*worker, SIGCONT);
}

void Agent::act(const action::End& end) {
  Worker* worker = workers_.find(end.uid);
  if (worker == nullptr) return;
  // Where rank 0 is, errors of the run are told already.
  std::string text = end.text;
  if (end.code != 0) text = worker->rank == Rank(0) ? "" : "the run ends: " + end.text;
  (void)coord::send(worker->lifeline.get(), message::End{end.code, text}, Deadline::in(0s)).ok();
  if (!worker->end_by) worker->end_by = Deadline::in(2s);
}

void Agent::act(const action::AppendDead& dead) {
  coord::Header& header = board_->view().header();
  const std::uint64_t count = header.dead_count.load(std::memory_order_relaxed);
  if (count >= coord::kMaxDead) return;  // the coordinator stops replacing long before
  header.dead_uid[count].store(dead.uid.value(), std::memory_order_relaxed);
  header.dead_count.store(count + 1, std::memory_order_release);
  ring_ = true;
}

void Agent::act(const action::WriteProposal& proposal) {
  coord::Header& header = board_->view().header();
  coord::write_proposal(header.proposal, proposal.wish);
  header.generation.store(proposal.wish.generation.value(), std::memory_order_release);
  ring_ = true;
}

void Agent::act(const action::WriteTable& first) {
  const coord::Table& table = first.table;
  for (const auto& [uid, worker] : workers_) board_->view().slot(worker.slot).signal.store(0);
  if (auto opened = records_.open(run_dir_->path(), board_->view(), table.txn); !opened.ok())
    return records_.fail(opened.error());
  coord::Header& header = board_->view().header();
  if (header.started_ns.load() == 0) header.started_ns.store(monotonic_ns());
  header.ran_ns.store(first.ran_ns, std::memory_order_relaxed);
  header.ran_from_ns.store(monotonic_ns(), std::memory_order_release);
  header.stop_recorded.store(table.stop_after_step, std::memory_order_release);
  coord::write_table(header.table[table.txn.value() % coord::kTables], table);
  ring_ = true;
}

// Beside the loop: a disk may be slow, and only those wait who are to stop.
void Agent::act(const action::RecordStop& record) {
  const rundir::TimeStop stop = record.stop;
  background_.run(run_dir_->stop_writer(stop), [this, stop, of = attempt_](const Status& written) {
    if (!written.ok()) return feed(event::RecordsFailed{written.error()});
    if (attempt_ != of) return;  // another board's
    board_->view().header().stop_recorded.store(stop.stop_after_step, std::memory_order_release);
    ring_workers();
  });
}

void Agent::act(const action::RecordStandstills& record) {
  if (run_dir_ != nullptr) write_beside(run_dir_->standstill_writer(record.standstills));
}

Records::Told Agent::when_recorded() {
  return {[this](std::string_view lines) {
            console_.write(Console::kOut, lines);
            progress_.printed(monotonic_ns());
          },
          [this](const Error& error) { feed(event::RecordsFailed{error}); },
          [this](WorkerUid uid, Txn txn, const std::optional<Error>& error) {
            message::Synced answer{txn, std::nullopt};
            if (error) answer.error = error->message;
            send_to(uid, answer);
          }};
}

void Agent::act(const action::NameDonor& donor) {
  coord::Header& header = board_->view().header();
  header.heal_donor.store(donor.uid.value(), std::memory_order_relaxed);
  header.heal_request.store(donor.request, std::memory_order_release);
  if (Worker* worker = workers_.find(donor.uid)) ring(board_->view().slot(worker->slot).bell);
}

void Agent::act(const action::Admit& admit) {
  const int descriptors[] = {run_dir_->lock()};
  send_to(admit.uid, message::Admit{admit.newcomer, checkpointed_}, descriptors);
}

void Agent::act(const action::Refuse& refuse) {
  send_to(refuse.uid, message::Refuse{refuse.error.kind, refuse.error.message});
}

void Agent::act(const action::RecordIncident& record) { incidents_.record(record.incident); }

// What nobody waits for.
void Agent::write_beside(Background::Job write) {
  background_.run(std::move(write), [](const Status& written) {
    if (!written.ok()) log_warning(written.error().message);
  });
}

void Agent::act(const action::RestartGroup& restart) {
  // The workers to come read what is being written (stop.json). With a disk that stands still for
  // longer some may find it and some not: then the run ends with an error, and goes on next time.
  (void)background_.finish(Deadline::in(10s));
  records_.close();
  finales_.clear();
  attempt_ = restart.restart_count;
  ending_attempt_ = false;
  failures_.clear();
  errors_told_.clear();
  helpers_.left_by_all([this](pid_t child) { return spawner_.keeps(child); });
  if (plain()) {
    master_->begin_anew();
    return;
  }
  renew_board();
}

void Agent::renew_board() {
  // Faults fire, and lines that one says for all are said, once in the life of the launcher.
  std::array<std::uint64_t, coord::kMaxFaults> fired{};
  std::array<std::uint64_t, coord::kMaxClaims> claims{};
  const auto keep = [](const auto& words, auto& kept) {
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = words[i].load();
  };
  const auto restore = [](const auto& kept, auto& words) {
    for (std::size_t i = 0; i < kept.size(); ++i) words[i].store(kept[i]);
  };
  keep(board_->view().header().fault_fired, fired);
  keep(board_->view().header().claims, claims);
  const coord::BoardPlan plan = board_->view().plan();
  board_.reset();  // first: two would need twice the address space
  auto fresh = SharedBoard::make();
  if (!fresh.ok()) return feed(event::RecordsFailed{fresh.error()});
  board_ = std::move(*fresh);
  board_->set_plan(plan);
  restore(fired, board_->view().header().fault_fired);
  restore(claims, board_->view().header().claims);
}

void Agent::act(const action::RestartZygote&) {
  // Workers that the old one has not forked are asked for anew, under other uids.
  for (Worker* worker : workers_.unforked()) {
    if (worker->control) loop_.remove(worker->control.get());
    workers_.erase(worker->uid);
  }
  spawner_.restart_zygote();
}

void Agent::act(const action::SetFinalRecorded& final) {
  if (auto recorded = record_finale(finales_[final.uid]); !recorded.ok()) {
    if (!records_.failed()) return records_.fail(recorded.error());
    return feed(event::RecordsFailed{recorded.error()});
  }
  board_->view().header().final_recorded.store(1, std::memory_order_release);
  ring_ = true;
}

Status Agent::record_finale(const message::Finish& finale) {
  LOCKSTEP_TRY(records_.finish());
  console_.write(Console::kOut, finale.console);
  if (finale.summary.empty()) return {};
  return write_atomically(posix_env(), run_dir_->path() + "/result.json", finale.summary);
}

void Agent::act(const action::Reply& reply) {
  if (auto answer = answers_.extract(reply.request))
    answer.mapped()({reply.ok, reply.text, reply.kind});
}

void Agent::act(const action::Print& print) {
  const LogLevel level = print.severity == action::Severity::kError     ? LogLevel::kError
                         : print.severity == action::Severity::kWarning ? LogLevel::kWarning
                                                                        : LogLevel::kInfo;
  log(level, print.text);
  if (level == LogLevel::kError) errors_told_ += print.text + "\n";
}

void Agent::act(const action::Stop& stop) {
  records_.pump();
  exit_code_ = stop.exit_code;
}

}  // namespace lockstep::launcher
