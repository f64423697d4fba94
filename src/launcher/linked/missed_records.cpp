#include "launcher/linked/missed_records.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "base/text.h"
#include "rundir/record_file.h"

namespace lockstep::launcher {
namespace {

constexpr std::array kNames{"/ledger.jsonl", "/metrics.jsonl"};

// The transaction of the line that begins there; none: no line does, but the rest of one.
std::optional<Txn> txn_of(std::string_view text) {
  const auto number = take_number<std::uint64_t>(text, rundir::kRecordStart);
  return number ? std::optional(Txn(*number)) : std::nullopt;
}

// Of the whole lines of a piece: how many bytes they have, and where those of their last
// transaction begin, which is 0 of none. A line that has begun in the piece before counts as whole,
// and has no transaction.
struct Lines {
  std::size_t bytes = 0, last_at = 0;
  Txn last{0};
};

// None: some are no records.
std::optional<Lines> lines_of(std::string_view piece) {
  Lines lines;
  for (std::size_t end; (end = piece.find('\n', lines.bytes)) != piece.npos;
       lines.bytes = end + 1) {
    const auto txn = txn_of(piece.substr(lines.bytes, end - lines.bytes));
    if (!txn && lines.bytes > 0) return {};
    if (txn && (lines.bytes == 0 || *txn != lines.last)) lines.last_at = lines.bytes;
    lines.last = txn.value_or(Txn(0));
  }
  return lines;
}

}  // namespace

Result<link::RecordsPiece> read_records(Env& env, const std::string& run_dir, Txn recorded,
                                        const link::WantRecords& want) {
  link::RecordsPiece piece{want, recorded, {}};
  const std::string path = run_dir + kNames.at(static_cast<std::size_t>(want.file));
  if (!env.exists(path)) return piece;
  LOCKSTEP_ASSIGN(const std::uint64_t first, rundir::place_of_record(env, path, want.from));
  LOCKSTEP_ASSIGN(const std::uint64_t end, rundir::place_of_record(env, path, recorded));
  LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
  const std::uint64_t at = std::min(first + want.skip, end);
  const std::uint64_t left = end - at;
  if (left > link::kMaxPieceBytes) piece.upto = Txn(0);
  piece.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, link::kMaxPieceBytes)));
  LOCKSTEP_TRY(file->read_at(at, std::as_writable_bytes(std::span(piece.bytes))));
  return piece;
}

Result<MissedRecords> MissedRecords::open(Env& env, const std::string& run_dir, coord::Stay who,
                                          Txn from) {
  MissedRecords missed(who);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string path = run_dir + kNames[i];
    LOCKSTEP_ASSIGN(const std::uint64_t end, rundir::place_of_record(env, path, from));
    if (env.exists(path)) LOCKSTEP_TRY(env.truncate(path, end));
    LOCKSTEP_ASSIGN(missed.files_[i].file, env.open_append(path));
    missed.files_[i].from = from;
  }
  return missed;
}

// The one that has less of them: so both come to their ends.
link::WantRecords MissedRecords::next() const {
  const bool metrics = files_[1].upto < files_[0].upto;
  const Copy& copy = files_[metrics ? 1 : 0];
  return {who_, metrics ? link::RecordsOf::kMetrics : link::RecordsOf::kLedger, copy.from,
          copy.bytes, upto() > Txn(0)};
}

Result<bool> MissedRecords::take(const link::RecordsPiece& piece) {
  Copy& copy = files_.at(static_cast<std::size_t>(piece.of.file));
  if (piece.of.who != who_ || piece.of.from != copy.from || piece.of.skip != copy.bytes)
    return false;
  const auto first = txn_of(piece.bytes);
  auto lines = lines_of(piece.bytes);
  const bool begins = first || piece.bytes.empty();
  if (!lines || (!begins && copy.bytes == 0)) return false;  // another one has better ones
  if (first && *first != copy.from) copy.from = *first, copy.bytes = 0;  // all before it is there
  const bool is_last = piece.upto != Txn(0);
  if (!is_last && lines->bytes == 0) lines->bytes = piece.bytes.size();  // of one longer line
  // The last transaction of a piece in the middle may have more lines.
  const bool within = !is_last && (lines->last_at == 0 || lines->last == copy.from);
  const std::size_t taken = is_last || within ? lines->bytes : lines->last_at;
  const auto bytes = std::as_bytes(std::span(piece.bytes)).first(taken);
  if (!bytes.empty()) LOCKSTEP_TRY(copy.file->append(bytes));
  copy.bytes = within ? copy.bytes + taken : 0;
  if (!within) copy.from = std::max(copy.from, is_last ? piece.upto : lines->last);
  copy.upto = std::max(copy.upto, piece.upto);
  return true;
}

}  // namespace lockstep::launcher
