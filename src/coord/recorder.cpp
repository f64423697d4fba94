#include "coord/recorder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/futex.h"

namespace lockstep::coord {
namespace {

constexpr std::string_view kLineStart = "{\"txn\":";
constexpr std::size_t kPiece = std::size_t{1} << 20;

std::optional<std::uint64_t> txn_of(std::string_view line) {
  if (!line.starts_with(kLineStart)) return std::nullopt;
  line.remove_prefix(kLineStart.size());
  std::uint64_t txn = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), txn);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return txn;
}

// Walks over a file's lines; keeps only each line's first bytes, so that a ledger of any size fits.
class LineScan {
 public:
  explicit LineScan(std::uint64_t next) : next_(next) {}

  // True: the place of the cut is found.
  Result<bool> feed(std::string_view piece, const std::string& path) {
    for (const char c : piece) {
      ++at_;
      if (c != '\n') {
        if (start_.size() < 32) start_ += c;
        continue;
      }
      const auto txn = txn_of(start_);
      if (!txn)
        return Error{ErrorKind::kBadData, "'" + path + "', byte " + std::to_string(keep_) +
                                              ": a line starts with '" + start_ + "', expected " +
                                              std::string(kLineStart) +
                                              "N,; remove the file to go on without it"};
      if (*txn >= next_) return true;
      keep_ = at_;
      start_.clear();
    }
    return false;
  }
  std::uint64_t keep() const { return keep_; }  // bytes of whole lines below `next`

 private:
  std::uint64_t next_, at_ = 0, keep_ = 0;
  std::string start_;
};

Result<std::uint64_t> bytes_below(Env& env, const std::string& path, Txn next) {
  LineScan scan(next.value());
  if (next == Txn(0)) return 0;
  LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
  std::string piece;
  for (std::uint64_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, file->size() - at)));
    LOCKSTEP_TRY(file->read_at(at, std::as_writable_bytes(std::span(piece))));
    LOCKSTEP_ASSIGN(const bool found, scan.feed(piece, path));
    if (found) break;
  }
  return scan.keep();
}

Result<std::unique_ptr<File>> open_cut(Env& env, const std::string& path, Txn next) {
  if (env.exists(path)) {
    LOCKSTEP_ASSIGN(const std::uint64_t keep, bytes_below(env, path, next));
    LOCKSTEP_TRY(env.truncate(path, keep));
  }
  LOCKSTEP_ASSIGN(auto file, env.open_append(path));
  LOCKSTEP_TRY(file->sync());
  return file;
}

class BoardRecorder final : public Recorder {
 public:
  BoardRecorder(Board board, Txn next, Txn console_from,
                std::function<void(std::string_view)> console, std::unique_ptr<File> ledger,
                std::unique_ptr<File> metrics)
      : board_(board),
        next_(next),
        console_from_(console_from),
        console_(std::move(console)),
        ledger_(std::move(ledger)),
        metrics_(std::move(metrics)) {
    board_.header().recorded_txn.store(next.value(), std::memory_order_release);
  }

  Status pump() override {
    if (!status_.ok()) return status_;
    Batch batch;
    Txn end = next_;
    // As many as the ring holds: workers overwrite none of them before recorded_txn moves.
    while (end.value() < next_.value() + board_.plan().ring) {
      const CommitLines* lines = committed(end);
      if (lines == nullptr) break;
      if (Status added = add(*lines, end, batch); !added.ok()) return status_ = added;
      end = Txn(end.value() + 1);
    }
    if (end == next_) return {};
    if (Status written = write(batch); !written.ok()) return status_ = written;
    const std::uint64_t had_room_below = next_.value() + board_.plan().ring;
    next_ = end;
    board_.header().recorded_txn.store(end.value(), std::memory_order_release);
    ring_waiting(had_room_below);
    return {};
  }

  Status sync() override {
    if (!status_.ok()) return status_;
    if (Status synced = ledger_->sync(); !synced.ok()) return status_ = synced;
    if (Status synced = metrics_->sync(); !synced.ok()) return status_ = synced;
    return {};
  }

  Txn next() const override { return next_; }

 private:
  struct Batch {
    std::string console, metrics, ledger;
  };

  const CommitLines* lines_of(std::uint32_t index, Txn txn) const {
    const WorkerSlot& slot = board_.slot(Slot(index));
    // Looks at the lines of slots in use only: reading the others would fill them with pages.
    if (slot.applied.load(std::memory_order_acquire) <= txn.value()) return nullptr;
    const CommitLines& lines = board_.lines(Slot(index), txn);
    return lines.mark.load(std::memory_order_acquire) == txn.value() + 1 ? &lines : nullptr;
  }

  // From any worker that has applied it, dead ones included: they all write the same.
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

  Status add(const CommitLines& lines, Txn txn, Batch& batch) {
    const std::uint64_t bytes = std::uint64_t{lines.console_bytes} + lines.metrics_bytes;
    if (bytes > kCommitTextBytes)
      return Error{ErrorKind::kInternal, "transaction " + std::to_string(txn.value()) +
                                             " has lines of " + std::to_string(bytes) +
                                             " bytes, limit " + std::to_string(kCommitTextBytes)};
    if (txn >= console_from_) batch.console.append(lines.text, lines.console_bytes);
    batch.metrics.append(lines.text + lines.console_bytes, lines.metrics_bytes);
    return lines.is_step != 0 ? add_ledger_line(lines, txn, batch.ledger) : Status();
  }

  Status add_ledger_line(const CommitLines& lines, Txn txn, std::string& out) {
    out += std::string(kLineStart) + std::to_string(txn.value()) +
           ",\"step\":" + std::to_string(lines.step) + ",\"epoch\":" + std::to_string(lines.epoch) +
           ",\"ids\":[";
    for (std::uint32_t v = 0; v < board_.plan().virtual_workers; ++v) {
      const ShareRecord& record = board_.record(txn, VirtualWorker(static_cast<int>(v)));
      const std::uint64_t mark = record.mark.load(std::memory_order_acquire);
      if (mark != txn.value() + 1 || record.ids_count > board_.plan().ids_capacity)
        return Error{ErrorKind::kInternal,
                     "transaction " + std::to_string(txn.value()) + " is committed, but share " +
                         std::to_string(v) + " has no valid record (mark " + std::to_string(mark) +
                         ", " + std::to_string(record.ids_count) + " ids, limit " +
                         std::to_string(board_.plan().ids_capacity) + ")"};
      out += v == 0 ? "[" : ",[";
      for (std::uint64_t i = 0; i < record.ids_count; ++i) {
        if (i != 0) out += ',';
        out += std::to_string(record.ids()[i]);
      }
      out += ']';
    }
    out += "]}\n";
    return {};
  }

  Status write(const Batch& batch) {
    // An append of nothing would still touch the disk's error state.
    if (!batch.ledger.empty())
      LOCKSTEP_TRY(ledger_->append(std::as_bytes(std::span(batch.ledger))));
    if (!batch.metrics.empty())
      LOCKSTEP_TRY(metrics_->append(std::as_bytes(std::span(batch.metrics))));
    if (!batch.console.empty()) console_(batch.console);
    return {};
  }

  // Those whose next transaction had no room in the ring before.
  void ring_waiting(std::uint64_t had_room_below) {
    for (std::uint32_t i = 0; i < kMaxSlots; ++i) {
      WorkerSlot& slot = board_.slot(Slot(i));
      if (slot.current_txn.load(std::memory_order_relaxed) >= had_room_below) ring(slot.bell);
    }
  }

  Board board_;
  Txn next_, console_from_;
  std::function<void(std::string_view)> console_;
  std::unique_ptr<File> ledger_, metrics_;
  std::uint32_t source_ = 0;  // the slot that had the last transaction's lines
  Status status_;             // the first error stays
};

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(Env& env, const std::string& run_dir, Board board,
                                                 Txn next,
                                                 std::function<void(std::string_view)> console,
                                                 Txn console_from) {
  LOCKSTEP_ASSIGN(auto ledger, open_cut(env, run_dir + "/ledger.jsonl", next));
  LOCKSTEP_ASSIGN(auto metrics, open_cut(env, run_dir + "/metrics.jsonl", next));
  LOCKSTEP_TRY(env.sync_dir(run_dir));
  return std::unique_ptr<Recorder>(std::make_unique<BoardRecorder>(
      board, next, console_from, std::move(console), std::move(ledger), std::move(metrics)));
}

}  // namespace lockstep::coord
