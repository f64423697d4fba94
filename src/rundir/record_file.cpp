#include "rundir/record_file.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/text.h"

namespace lockstep::rundir {
namespace {

constexpr std::string_view kStep = ",\"step\":";
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kHead = 64;  // both numbers, the longest too

struct Place {
  std::uint64_t txn = 0, step = 0;
};

std::optional<Place> place_of(std::string_view line) {
  const auto txn = take_number<std::uint64_t>(line, kRecordStart);
  if (!txn || !line.starts_with(',')) return std::nullopt;
  return Place{*txn, take_number<std::uint64_t>(line, kStep).value_or(0)};
}

// Walks over a file's lines; keeps only each line's first bytes, so that a ledger of any size fits.
class LineScan {
 public:
  LineScan(std::uint64_t first, std::uint64_t next, std::uint32_t holes, std::uint64_t from = 0)
      : first_(first), next_(next), at_(from), keep_(from), holes_(holes) {}

  // True: the place of the cut is found.
  Result<bool> feed(std::string_view piece, const std::string& path) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      if (start_.size() < kHead) start_ += piece.substr(0, std::min(end, kHead - start_.size()));
      const std::size_t taken = end == piece.npos ? piece.size() : end + 1;
      at_ += taken;
      piece.remove_prefix(taken);
      if (end == piece.npos) return false;
      const auto place = place_of(start_);
      if (!place)
        return Error{ErrorKind::kBadData, "'" + path + "', byte " + std::to_string(keep_) +
                                              ": a line starts with '" + start_.substr(0, 32) +
                                              "', expected " + std::string(kRecordStart) +
                                              "N,; remove the file to go on without it"};
      if (place->txn >= next_) return true;
      if (gap_.empty() && !follows(*place)) gap_ = between(place->txn);
      last_ = place;
      keep_ = at_;
      start_.clear();
    }
    return false;
  }
  // The byte behind the last whole line below `next`.
  std::uint64_t keep() const { return keep_; }

  // Of what should be there below `next`: the first part that is not, in words; empty: nothing.
  std::string missing() const {
    if (!gap_.empty()) return gap_;
    const std::uint64_t reached = last_ ? last_->txn + 1 : first_;
    return reached + (last_ ? holes_ : 0) >= next_ ? "" : between(next_);
  }

 private:
  bool follows(const Place& place) const {
    if (!last_) return place.txn == first_;
    if (place.txn == last_->txn + 1) return true;
    const std::uint64_t txns = place.txn - last_->txn, steps = place.step - last_->step;
    // As many steps or fewer would be lost ones, other numbers are another V's.
    return place.txn > last_->txn && txns <= 1 + holes_ && (steps < 2 || steps > txns);
  }
  std::string between(std::uint64_t txn) const {
    return (last_ ? "after transaction " + std::to_string(last_->txn) + " and " : std::string()) +
           "before transaction " + std::to_string(txn);
  }

  std::uint64_t first_, next_, at_ = 0, keep_ = 0;
  std::uint32_t holes_;
  std::string start_, gap_;
  std::optional<Place> last_;
};

Status scan(ReadableFile& file, const std::string& path, LineScan& lines, std::uint64_t from = 0) {
  std::string piece;
  for (std::uint64_t at = from; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, file.size() - at)));
    LOCKSTEP_TRY(file.read_at(at, std::as_writable_bytes(std::span(piece))));
    LOCKSTEP_ASSIGN(const bool found, lines.feed(piece, path));
    if (found) break;
  }
  return {};
}

// From byte `at` on. What cannot be read is left out: the run does not need it.
std::string whole_lines(Env& env, const std::string& path, std::uint64_t at, std::uint64_t most) {
  const auto file = env.open_read(path);
  if (!file.ok() || (*file)->size() <= at) return "";
  std::string lines(static_cast<std::size_t>(std::min(most, (*file)->size() - at)), '\0');
  if (!(*file)->read_at(at, std::as_writable_bytes(std::span(lines))).ok()) return "";
  lines.resize(lines.rfind('\n') + 1);  // none at all: npos + 1
  return lines;
}

// Behind the first end of a line from there on; the file's end if there is none.
Result<std::uint64_t> next_line(ReadableFile& file, std::uint64_t at) {
  constexpr std::uint64_t kStretch = 4096;
  std::string text;
  for (; at < file.size(); at += text.size()) {
    text.resize(static_cast<std::size_t>(std::min(kStretch, file.size() - at)));
    LOCKSTEP_TRY(file.read_at(at, std::as_writable_bytes(std::span(text))));
    if (const auto end = text.find('\n'); end != text.npos) return at + end + 1;
  }
  return at;
}

// Whether the line that begins there is of an earlier transaction. One that cannot be read is not.
Result<bool> is_before(ReadableFile& file, std::uint64_t at, Txn txn) {
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(kHead, file.size() - at)), 0);
  LOCKSTEP_TRY(file.read_at(at, std::as_writable_bytes(std::span(head))));
  const auto place = place_of(head);
  return place && place->txn < txn.value();
}

}  // namespace

Result<std::uint64_t> place_of_record(Env& env, const std::string& path, Txn txn) {
  if (!env.exists(path)) return 0;
  LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
  // The line is between them; at `low` one begins.
  std::uint64_t low = 0, high = file->size();
  while (high - low > kPiece) {
    const std::uint64_t middle = low + (high - low) / 2;
    LOCKSTEP_ASSIGN(const std::uint64_t line, next_line(*file, middle));
    if (line >= high) break;
    LOCKSTEP_ASSIGN(const bool before, is_before(*file, line, txn));
    (before ? low : high) = before ? line : middle;
  }
  LineScan lines(0, txn.value(), 0, low);
  LOCKSTEP_TRY(scan(*file, path, lines, low));
  return lines.keep();
}

Result<RecordFile> open_records(Env& env, const std::string& path, Txn first, Txn next,
                                std::uint64_t most_cut) {
  RecordFile opened;
  if (env.exists(path)) {
    std::uint64_t keep = 0;
    if (next > first) {
      LOCKSTEP_ASSIGN(keep, place_of_record(env, path, next));
    }
    if (most_cut > 0) opened.cut = whole_lines(env, path, keep, most_cut);
    LOCKSTEP_TRY(env.truncate(path, keep));
  }
  LOCKSTEP_ASSIGN(opened.file, env.open_append(path));
  LOCKSTEP_TRY(opened.file->sync());
  return opened;
}

Status warn_of_missing(Env& env, const std::string& path, Txn first, Txn next,
                       std::uint32_t holes) {
  LineScan lines(first.value(), next.value(), holes);
  if (next > first && env.exists(path)) {
    LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
    LOCKSTEP_TRY(scan(*file, path, lines));
  }
  if (const std::string missing = lines.missing(); !missing.empty())
    log_warning("'" + path + "' has no records " + missing + ". The run goes on at transaction " +
                std::to_string(next.value()) + "; its weights do not depend on them");
  return {};
}

}  // namespace lockstep::rundir
