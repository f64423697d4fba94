#include "coord/recorder.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/futex.h"
#include "base/log.h"
#include "base/places.h"
#include "base/text.h"
#include "rundir/manifest.h"
#include "rundir/record_file.h"
#include "rundir/redone.h"
#include "rundir/times.h"

namespace lockstep::coord {
namespace {

// The first error stays. Threads: any.
class FirstError {
 public:
  Status get() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  Status keep(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  Status status_;
};

// Both files once more, so that they can be synced while they are written.
class Syncer {
 public:
  static Result<Syncer> of(Env& env, const std::string& run_dir) {
    LOCKSTEP_ASSIGN(Places places, Places::of(env, {run_dir, run_dir + "/ledger.jsonl",
                                                    run_dir + "/metrics.jsonl"}));
    LOCKSTEP_ASSIGN(auto ledger, env.open_append(run_dir + "/ledger.jsonl"));
    LOCKSTEP_ASSIGN(auto metrics, env.open_append(run_dir + "/metrics.jsonl"));
    return Syncer(std::move(places), std::move(ledger), std::move(metrics));
  }
  std::optional<Places::Missing> missing() const { return places_.missing(); }
  Status sync() {
    const std::lock_guard lock(*one_at_a_time_);
    LOCKSTEP_TRY(ledger_->sync());
    return metrics_->sync();
  }

 private:
  Syncer(Places places, std::unique_ptr<File> ledger, std::unique_ptr<File> metrics)
      : places_(std::move(places)), ledger_(std::move(ledger)), metrics_(std::move(metrics)) {}
  Places places_;
  std::unique_ptr<File> ledger_, metrics_;
  std::unique_ptr<std::mutex> one_at_a_time_ = std::make_unique<std::mutex>();
};

// A step's ids come with its last update.
std::uint32_t before_ids(const BoardPlan& plan) { return plan.updates - 1; }
Txn first_step(Txn first, const BoardPlan& plan) { return Txn(first.value() + before_ids(plan)); }

constexpr const char* kKeptOutside =
    "the loss, a hook or what the loop writes depends on what the program keeps outside of the "
    "train state (a counter, a pool, an environment, a generator of its own), which no checkpoint "
    "has: state.add() takes tensors, "
    "modules and whatever has a text, carried rows what each virtual worker has, and share.seed() "
    "begins generators (docs/guide/own_loop.md, \"Steps that are done again\")";

class BoardRecorder final : public Recorder {
 public:
  BoardRecorder(Syncer syncer, Board board, Txn next, Here here,
                std::function<void(std::string_view)> console, std::unique_ptr<File> ledger,
                rundir::RecordFile metrics, rundir::Times times)
      : syncer_(std::move(syncer)),
        board_(board),
        next_(next),
        here_(here),
        console_(std::move(console)),
        ledger_(std::move(ledger)),
        metrics_(std::move(metrics.file)),
        redone_(std::move(metrics.cut)),
        times_(std::move(times)) {
    board_.record_from(next);
  }

  Status pump() override {
    LOCKSTEP_TRY(status_.get());
    batch_.clear();
    Txn end = next_;
    // As many as the ring holds: workers overwrite none of them before recorded_txn moves.
    while (end.value() < next_.value() + board_.plan().ring) {
      const CommitLines* lines = committed(end);
      if (lines == nullptr) break;
      if (Status added = add(*lines, end); !added.ok()) return status_.keep(added);
      end = Txn(end.value() + 1);
    }
    if (end == next_) return {};
    if (Status written = write(); !written.ok()) return status_.keep(written);
    const Txn last(end.value() - 1);
    times_.add(last, members(last), batch_.epochs_end);
    const Txn no_room_from = board_.no_room_from(next_);
    next_ = end;
    board_.header().recorded_txn.store(end.value(), std::memory_order_release);
    ring_waiting(no_room_from);
    return refuted_ ? status_.keep(*refuted_) : Status();
  }

  Status sync() override {
    LOCKSTEP_TRY(status_.get());
    if (const auto missing = syncer_.missing())
      return missing->directory ? missing->error : status_.keep(missing->error);
    return status_.keep(syncer_.sync());
  }
  bool broken() const override { return !status_.get().ok(); }

  Txn next() const override { return next_; }
  const Recorded& recorded() const override { return recorded_; }

 private:
  struct Batch {
    std::string console, metrics, ledger;
    bool epochs_end = false;  // the end of an epoch is among them
    void clear() {
      epochs_end = false;
      for (std::string* text : {&console, &metrics, &ledger}) text->clear();
    }
  };

  const CommitLines* lines_of(std::uint32_t index, Txn txn) const {
    const WorkerSlot& slot = board_.slot(Slot(index));
    // Looks at the lines of slots in use only: reading the others would fill them with pages.
    if (slot.applied.load(std::memory_order_acquire) <= txn.value()) return nullptr;
    const CommitLines& lines = board_.lines(Slot(index), txn);
    return lines.mark.load(std::memory_order_acquire) == txn.value() + 1 ? &lines : nullptr;
  }

  // From any worker that has applied it, dead ones included: they all write the same. `source_` is
  // that worker's slot.
  const CommitLines* committed(Txn txn) {
    if (const CommitLines* lines = lines_of(source_, txn)) return lines;
    for (std::uint32_t i = 0; i < kMaxSlots; ++i) {
      const CommitLines* lines = lines_of(i, txn);
      if (lines == nullptr) continue;
      source_ = i;
      return lines;
    }
    return nullptr;
  }

  Status add(const CommitLines& lines, Txn txn) {
    const std::uint64_t bytes = std::uint64_t{lines.console_bytes} + lines.metrics_bytes;
    if (bytes > board_.text_capacity())
      return Error{ErrorKind::kInternal, "transaction " + std::to_string(txn.value()) +
                                             " has lines of " + std::to_string(bytes) +
                                             " bytes, limit " +
                                             std::to_string(board_.text_capacity())};
    const char* const text = board_.text(Slot(source_), txn, bytes);
    if (txn >= here_.to) batch_.console.append(text, lines.console_bytes);
    batch_.metrics.append(text + lines.console_bytes, lines.metrics_bytes);
    if (!redone_.over()) compare({text + lines.console_bytes, lines.metrics_bytes}, txn);
    batch_.epochs_end |= lines.ends_epoch != 0;
    return lines.is_step != 0 ? add_ledger_line(lines, txn, batch_.ledger) : Status();
  }

  // The metrics of a transaction that has been recorded before, which the batch ends with.
  void compare(std::string_view metrics, Txn txn) {
    const auto difference = redone_.compare(metrics);
    if (!difference) return;
    batch_.metrics.replace(batch_.metrics.size() - metrics.size(), metrics.size(),
                           difference->lines);
    if (here_.has(txn) && difference->promised)
      refuted_ = Error{ErrorKind::kUsage,
                       difference->text + ". All workers had died, and " + kKeptOutside +
                           ". The same command goes on from the checkpoint as it is; with "
                           "--rehearse 0 this ends no run, and equal weights are not promised"};
    else
      log_warning(
          difference->text +
          ". Either the program, its options, its data, a library or the machine is another "
          "one by now, or " +
          kKeptOutside +
          ". The run goes on; its weights are not those of a run that was never ended");
  }

  Status add_ledger_line(const CommitLines& lines, Txn txn, std::string& out) {
    out += rundir::kRecordStart;
    append_number(out, txn.value());
    out += ",\"step\":";
    append_number(out, lines.step);
    out += ",\"epoch\":";
    append_number(out, lines.epoch);
    out += ",\"ids\":[";
    double loss_sum = 0;
    std::uint64_t losses = 0, samples = 0;
    for (std::uint32_t v = 0; v < board_.plan().virtual_workers; ++v) {
      const ShareRecord& record = board_.record(txn, VirtualWorker(static_cast<int>(v)));
      const std::uint64_t mark = record.mark.load(std::memory_order_acquire);
      if (mark != txn.value() + 1 || record.ids_count > board_.plan().ids_capacity)
        return Error{ErrorKind::kInternal,
                     "transaction " + std::to_string(txn.value()) + " is committed, but share " +
                         std::to_string(v) + " has no valid record (mark " + std::to_string(mark) +
                         ", " + std::to_string(record.ids_count) + " ids, limit " +
                         std::to_string(board_.plan().ids_capacity) + ")"};
      loss_sum += record.loss_sum;
      losses += record.loss_count;
      samples += record.ids_count;
      out += v == 0 ? "[" : ",[";
      for (const ShareRecord::Sample& sample : record.samples()) {
        if (out.back() != '[') out += ',';
        append_number(out, sample.id);
      }
      out += ']';
    }
    out += ']';
    add_replaced(txn, out);
    out += "}\n";
    recorded_ = {lines.step + 1,
                 losses > 0 ? loss_sum / static_cast<double>(losses) : recorded_.loss,
                 recorded_.samples + samples};
    return {};
  }

  // Behind the ids, if any: [the order's id, the one that was delivered].
  void add_replaced(Txn txn, std::string& out) const {
    const std::size_t before = out.size();
    for (std::uint32_t v = 0; v < board_.plan().virtual_workers; ++v)
      for (const ShareRecord::Sample& sample :
           board_.record(txn, VirtualWorker(static_cast<int>(v))).samples()) {
        if (!sample.replaced()) continue;
        out += out.size() == before ? ",\"replaced\":[[" : ",[";
        append_number(out, sample.asked);
        out += ',';
        append_number(out, sample.id);
        out += ']';
      }
    if (out.size() > before) out += ']';
  }

  // Of any table that is as new as that of `txn`. 0: all were written over while they were read.
  std::size_t members(Txn txn) const {
    Table table;
    for (const TableCell& cell : board_.header().table) {
      const std::uint64_t mark = cell.mark.load(std::memory_order_acquire);
      if (mark > txn.value() && read_table(cell, Txn(mark - 1), table)) return table.members.size();
    }
    return 0;
  }

  Status write() {
    // An append of nothing would still touch the disk's error state.
    if (!batch_.ledger.empty())
      LOCKSTEP_TRY(ledger_->append(std::as_bytes(std::span(batch_.ledger))));
    if (!batch_.metrics.empty())
      LOCKSTEP_TRY(metrics_->append(std::as_bytes(std::span(batch_.metrics))));
    if (!batch_.console.empty()) console_(batch_.console);
    return {};
  }

  // Those whose transaction had no room in the ring before.
  void ring_waiting(Txn no_room_from) {
    for (std::uint32_t i = 0; i < kMaxSlots; ++i) {
      WorkerSlot& slot = board_.slot(Slot(i));
      if (slot.current_txn.load(std::memory_order_relaxed) >= no_room_from.value()) ring(slot.bell);
    }
  }

  Syncer syncer_;
  Board board_;
  Txn next_;
  const Here here_;
  std::function<void(std::string_view)> console_;
  std::unique_ptr<File> ledger_, metrics_;
  rundir::Redone redone_;
  std::optional<Error> refuted_;  // by a step that was done again
  rundir::Times times_;
  Batch batch_;               // keeps its memory from one pump to the next
  std::uint32_t source_ = 0;  // the slot that had the last transaction's lines
  Recorded recorded_;
  FirstError status_;
};

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(Env& env, const std::string& run_dir, Board board,
                                                 Txn next,
                                                 std::function<void(std::string_view)> console,
                                                 Here here) {
  const Txn first = std::min(rundir::records_from(env, run_dir), next);
  LOCKSTEP_ASSIGN(auto ledger, rundir::open_records(env, run_dir + "/ledger.jsonl",
                                                    first_step(first, board.plan()), next));
  LOCKSTEP_ASSIGN(auto metrics, rundir::open_records(env, run_dir + "/metrics.jsonl", first, next,
                                                     rundir::kMostRedoneBytes));
  LOCKSTEP_TRY(env.sync_dir(run_dir));
  LOCKSTEP_ASSIGN(Syncer syncer, Syncer::of(env, run_dir));
  return std::unique_ptr<Recorder>(std::make_unique<BoardRecorder>(
      std::move(syncer), board, next, here, std::move(console), std::move(ledger.file),
      std::move(metrics), rundir::Times::open(env, run_dir, first, next)));
}

void Recorder::warn_of_missing(Env& env, const std::string& run_dir, const BoardPlan& plan,
                               Txn next) {
  const Txn first = std::min(rundir::records_from(env, run_dir), next);
  for (const Status& looked :
       {rundir::warn_of_missing(env, run_dir + "/ledger.jsonl", first_step(first, plan), next,
                                plan.epoch_ends + before_ids(plan)),
        rundir::warn_of_missing(env, run_dir + "/metrics.jsonl", first, next, 0)})
    if (!looked.ok()) log_warning(looked.error().message);
}

}  // namespace lockstep::coord
