#include "rundir/times.h"

#include <optional>
#include <string_view>

#include "base/log.h"
#include "base/text.h"
#include "rundir/record_file.h"

namespace lockstep::rundir {
namespace {

constexpr std::uint64_t kMostTimesBytes = std::uint64_t{64} << 20;
constexpr double kLeastSeconds = 0.02, kLeastShare = 0.002;  // of growth, for a line
constexpr std::string_view kRunTime = ",\"run_s\":";

struct Kept {
  std::size_t bytes = 0;
  std::optional<double> run_s;  // of the last line
};

// Whole lines of transactions below `next`.
Kept kept_of(std::string_view text, Txn next) {
  Kept kept;
  while (true) {
    const std::size_t end = text.find('\n', kept.bytes);
    if (end == std::string_view::npos) return kept;
    std::string_view line = text.substr(kept.bytes, end - kept.bytes);
    const auto txn = take_number<std::uint64_t>(line, kRecordStart);
    const auto run_s = txn ? take_number<double>(line, kRunTime) : std::nullopt;
    if (!run_s || *txn >= next.value()) return kept;
    kept = {end + 1, run_s};
  }
}

}  // namespace

Times Times::open(Env& env, const std::string& run_dir, Txn first, Txn next) {
  Times times(env);
  if (const Status started = times.start(run_dir + "/times.jsonl", first, next); !started.ok())
    times.give_up(started.error());
  return times;
}

Status Times::start(const std::string& path, Txn first, Txn next) {
  path_ = path;
  opened_ns_ = env_->now_ns();
  Kept kept;
  if (env_->exists(path)) {
    LOCKSTEP_ASSIGN(const std::string text, env_->read(path, kMostTimesBytes));
    kept = kept_of(text, next);
    LOCKSTEP_TRY(env_->truncate(path, kept.bytes));
  }
  if (next != first && !kept.run_s) return {};  // how long it had run is not known
  before_s_ = last_s_ = kept.run_s.value_or(0);
  LOCKSTEP_ASSIGN(file_, env_->open_append(path));
  return {};
}

void Times::add(Txn last, std::size_t workers, bool epochs_end) {
  if (file_ == nullptr) return;
  const double run_s = before_s_ + static_cast<double>(env_->now_ns() - opened_ns_) * 1e-9;
  if (!epochs_end && run_s < last_s_ * (1 + kLeastShare) + kLeastSeconds) return;
  last_s_ = run_s;
  std::string line(kRecordStart);
  append_number(line, last.value());
  line += std::string(kRunTime) + with_decimals(run_s, 6) + ",\"workers\":";
  append_number(line, workers);
  line += "}\n";
  if (const Status added = file_->append(std::as_bytes(std::span(line))); !added.ok())
    give_up(added.error());
}

void Times::give_up(const Error& error) {
  file_.reset();
  log_warning("'" + path_ + "' is not kept (" + error.message +
              "): reports of this run will lack times; the run does not need them");
}

}  // namespace lockstep::rundir
