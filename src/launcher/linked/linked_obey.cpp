// What the coordinator wants done of a linked program's board, records and members.
#include <chrono>

#include "base/env.h"
#include "base/log.h"
#include "coord/channel.h"
#include "launcher/linked/linked_run.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace action = coord::action;
namespace event = coord::event;
namespace message = coord::message;

}  // namespace

void LinkedRun::send_to(WorkerUid uid, const coord::Message& text,
                        std::span<const int> descriptors) {
  Worker* worker = workers_.find(uid);
  if (worker == nullptr || !worker->control) return;
  // Never wait for a worker: its socket has room for every answer that it may be owed.
  if (auto sent = coord::send(worker->control.get(), text, Deadline::in(0s), descriptors);
      !sent.ok())
    log_debug("worker " + std::to_string(uid.value()) + ": " + sent.error().message);
}

void LinkedRun::ring_workers() {
  if (!board_) return;
  for (const auto& [uid, worker] : workers_) ring(board_->view().slot(worker.slot).bell);
  ring(board_->view().header().link_bell);
}

void LinkedRun::act(const action::AppendDead& dead) {
  coord::Header& header = board_->view().header();
  const std::uint64_t count = header.dead_count.load(std::memory_order_relaxed);
  if (count >= coord::kMaxDead) return;  // the coordinator stops replacing long before
  header.dead_uid[count].store(dead.uid.value(), std::memory_order_relaxed);
  header.dead_count.store(count + 1, std::memory_order_release);
  ring_ = true;
}

void LinkedRun::act(const action::WriteProposal& proposal) {
  coord::Header& header = board_->view().header();
  coord::write_proposal(header.proposal, proposal.wish);
  header.generation.store(proposal.wish.generation.value(), std::memory_order_release);
  ring_ = true;
}

void LinkedRun::begin_records(Txn next, std::uint64_t ran_ns) {
  if (auto opened = records_.open(run_dir_->path(), board_->view(), next); !opened.ok())
    return records_.fail(opened.error());
  coord::Header& header = board_->view().header();
  if (header.started_ns.load() == 0) header.started_ns.store(monotonic_ns());
  header.ran_ns.store(ran_ns, std::memory_order_relaxed);
  header.ran_from_ns.store(monotonic_ns(), std::memory_order_release);
  begun_ = true;
  ring_ = true;
}

void LinkedRun::act(const action::WriteTable& first) {
  coord::Table table = first.table;
  for (const auto& [uid, worker] : workers_) board_->view().slot(worker.slot).signal.store(0);
  begin_records(table.txn, first.ran_ns);
  if (records_.failed()) return;
  coord::Header& header = board_->view().header();
  table.parts = coord::parts_of(header.first_parts.load(std::memory_order_acquire));
  header.stop_recorded.store(table.stop_after_step, std::memory_order_release);
  if (first.here) coord::write_table(header.table[table.txn.value() % coord::kTables], table);
  ring_ = true;
}

// Beside the loop: a disk may be slow, and only those wait who are to stop.
void LinkedRun::act(const action::RecordStop& record) {
  const rundir::TimeStop stop = record.stop;
  background_.run(run_dir_->stop_writer(stop), [this, stop, of = boards_](const Status& written) {
    if (!written.ok()) return feed(event::RecordsFailed{written.error()});
    if (boards_ != of) return;  // another board's
    board_->view().header().stop_recorded.store(stop.stop_after_step, std::memory_order_release);
    ring_workers();
  });
}

void LinkedRun::act(const action::RecordStandstills& record) {
  if (run_dir_ != nullptr) write_beside(run_dir_->standstill_writer(record.standstills));
}

Records::Told LinkedRun::when_recorded() {
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

void LinkedRun::act(const action::NameDonor& donor) {
  coord::Header& header = board_->view().header();
  header.heal_donor.store(donor.uid.value(), std::memory_order_relaxed);
  header.heal_request.store(donor.request, std::memory_order_release);
  if (Worker* worker = workers_.find(donor.uid)) ring(board_->view().slot(worker->slot).bell);
}

void LinkedRun::act(const action::Admit& admit) {
  const int descriptors[] = {run_dir_->lock()};
  send_to(admit.uid, message::Admit{admit.newcomer, checkpointed_, begun_}, descriptors);
}

void LinkedRun::act(const action::Refuse& refuse) {
  send_to(refuse.uid, message::Refuse{refuse.error.kind, refuse.error.message});
}

void LinkedRun::act(const action::RecordIncident& record) { incidents_.record(record.incident); }

// What nobody waits for.
void LinkedRun::write_beside(Background::Job write) {
  background_.run(std::move(write), [](const Status& written) {
    if (!written.ok()) log_warning(written.error().message);
  });
}

void LinkedRun::act(const action::SetFinalRecorded& final) {
  if (auto recorded = record_finale(finales_[final.uid]); !recorded.ok()) {
    if (!records_.failed()) return records_.fail(recorded.error());
    return feed(event::RecordsFailed{recorded.error()});
  }
  board_->view().header().final_recorded.store(1, std::memory_order_release);
  ring_ = true;
}

Status LinkedRun::record_finale(const message::Finish& finale) {
  LOCKSTEP_TRY(records_.finish());
  console_.write(Console::kOut, finale.console);
  console_.settle();  // a rank 0 that was started by hand ends now
  if (finale.summary.empty()) return {};
  return write_atomically(posix_env(), run_dir_->path() + "/result.json", finale.summary);
}

void LinkedRun::act(const action::Reply& reply) {
  if (auto answer = answers_.extract(reply.request))
    answer.mapped()({reply.ok, reply.text, reply.kind});
}

}  // namespace lockstep::launcher
