// What the coordinator wants done of a linked program's board, records and members.
#include <algorithm>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "coord/channel.h"
#include "coord/wire_cost.h"
#include "launcher/linked/linked_run.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace action = coord::action;
namespace event = coord::event;
namespace message = coord::message;

// Once: that the virtual workers of this run make its nodes send more than they would have to.
void tell_of_more_sums(const coord::Table& table, std::uint32_t virtual_workers) {
  if (table.hosts.size() < 2) return;
  std::vector<std::uint32_t> workers;
  for (const coord::Host& host : table.hosts) workers.push_back(host.workers);
  const std::uint32_t sums = coord::most_sums_of_a_host(virtual_workers, workers);
  if (sums < 2) return;
  const auto fits = coord::with_one_sum_a_host(virtual_workers, workers);
  log_once("in a step a node sends up to " + std::to_string((sums + 1) / 2) +
           (sums % 2 == 0 ? ".5" : "") + " times the fewest bytes: its part of the " +
           std::to_string(virtual_workers) + " virtual workers takes " + std::to_string(sums) +
           " sums" +
           (fits ? "; of " + std::to_string(*fits) +
                       " it would take one (--virtual-workers, of a new run)"
                 : ""));
}

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
  coord::Header& header = board_->view().header();
  if (header.started_ns.load() == 0) header.started_ns.store(monotonic_ns());
  header.ran_ns.store(ran_ns, std::memory_order_relaxed);
  header.ran_from_ns.store(monotonic_ns(), std::memory_order_release);
  begun_ = true;
  records_.open(run_dir_->path(), board_, next);
  ring_ = true;
}

// A second one for the same board comes where the host is lost that was to write it. If this one
// has written the first by then, that is the run's.
void LinkedRun::act(const action::WriteTable& first) {
  coord::Header& header = board_->view().header();
  if (!records_.is_open()) {
    for (const auto& [uid, worker] : workers_) board_->view().slot(worker.slot).signal.store(0);
    header.stop_recorded.store(first.table.stop_after_step, std::memory_order_release);
    begin_records(first.table.txn, first.ran_ns);
  }
  if (!first.here || wrote_table_) return;
  wrote_table_ = true;
  tell_of_more_sums(first.table, descriptions_.first()->virtual_workers);
  coord::Table table = first.table;
  table.parts = coord::parts_of(header.first_parts.load(std::memory_order_acquire));
  coord::write_table(header.table[table.txn.value() % coord::kTables], table);
  ring_ = true;
}

// Beside the loop: a disk may be slow, and only those wait who are to stop, and who are to read it.
void LinkedRun::act(const action::RecordStop& record) {
  const rundir::TimeStop stop = record.stop;
  ++stops_;
  background_.run(run_dir_->stop_writer(stop), [this, stop, of = boards_](const Status& written) {
    if (--stops_ == 0)
      for (const action::Admit& each : std::exchange(to_admit_, {})) admit(each);
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

void LinkedRun::act(const action::Admit& admitted) {
  stops_ > 0 ? to_admit_.push_back(admitted) : admit(admitted);
}

void LinkedRun::admit(const action::Admit& admit) {
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
  const message::Finish& finale = finales_[final.uid];
  Background::Job write;
  if (!finale.summary.empty())
    write = [file = run_dir_->path() + "/result.json", summary = finale.summary] {
      return write_atomically(posix_env(), file, summary);
    };
  records_.finish(std::move(write), [this, finale, of = boards_](const Status& recorded) {
    if (recorded.ok()) return finale_recorded(finale, of);
    if (!records_.error()) return records_.fail(recorded.error());
    feed(event::RecordsFailed{recorded.error()});
  });
}

void LinkedRun::finale_recorded(const message::Finish& finale, int board) {
  console_.write(Console::kOut, finale.console);
  const bool by_hand =
      std::ranges::any_of(workers_, [](const auto& entry) { return bool(entry.second.process); });
  if (by_hand) console_.settle();  // its rank 0 ends now, and whoever started it reads the file
  if (boards_ != board) return;
  board_->view().header().final_recorded.store(1, std::memory_order_release);
  ring_workers();
}

void LinkedRun::act(const action::Reply& reply) {
  if (auto answer = answers_.extract(reply.request))
    answer.mapped()({reply.ok, reply.text, reply.kind});
}

}  // namespace lockstep::launcher
