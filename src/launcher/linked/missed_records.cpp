#include "launcher/linked/missed_records.h"

#include <algorithm>
#include <span>

#include "rundir/record_file.h"

namespace lockstep::launcher {
namespace {

constexpr std::array kNames{"/ledger.jsonl", "/metrics.jsonl"};

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
  MissedRecords missed(who, from);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string path = run_dir + kNames[i];
    LOCKSTEP_ASSIGN(const std::uint64_t end, rundir::place_of_record(env, path, from));
    if (env.exists(path)) LOCKSTEP_TRY(env.truncate(path, end));
    LOCKSTEP_ASSIGN(missed.files_[i].file, env.open_append(path));
  }
  return missed;
}

// The one that has less of them: so both come to their ends.
link::WantRecords MissedRecords::next() const {
  const bool metrics = files_[1].upto < files_[0].upto;
  return {who_, metrics ? link::RecordsOf::kMetrics : link::RecordsOf::kLedger, from_,
          files_[metrics ? 1 : 0].bytes, upto() > Txn(0)};
}

Result<bool> MissedRecords::take(const link::RecordsPiece& piece) {
  Copy& copy = files_.at(static_cast<std::size_t>(piece.of.file));
  if (piece.of.who != who_ || piece.of.from != from_ || piece.of.skip != copy.bytes) return false;
  if (!piece.bytes.empty()) LOCKSTEP_TRY(copy.file->append(std::as_bytes(std::span(piece.bytes))));
  copy.bytes += piece.bytes.size();
  copy.upto = std::max(copy.upto, piece.upto);
  return true;
}

}  // namespace lockstep::launcher
