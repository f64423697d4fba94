#include "train/epoch_ends.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/guard.h"
#include "base/log.h"
#include "train/lines.h"
#include "train/scored_batch.h"

namespace lockstep::training {

std::uint64_t EpochEnds::began_ns(Txn txn, std::uint64_t ran_ns) const {
  return spec_.plan.at(txn).step == 0 || began_ns_ == 0 ? ran_ns : began_ns_;
}

void EpochEnds::tell_time(Txn txn, std::uint64_t ran_ns, comm::EvalCell& cell) const {
  const bool over = spec_.plan.at(txn).kind == Kind::kExport;
  const bool known = began_ns_ != 0 && began_ns_ < ran_ns;
  cell.seconds = over ? seconds_ : known ? static_cast<double>(ran_ns - began_ns_) * 1e-9 : 0;
  cell.run_seconds = static_cast<double>(ran_ns) * 1e-9;
}

bool EpochEnds::evaluates(Txn txn) const {
  const Plan& plan = spec_.plan;
  const Position position = plan.at(txn);
  if (!spec_.evaluates || position.kind == Kind::kExport) return false;
  return position.kind == Kind::kEvaluation || plan.in_broken_end(txn) ||
         plan.evaluates_end(position.epoch);
}

// What has nothing to evaluate has one part, which is nothing: so it is agreed on as any other.
std::uint32_t EpochEnds::items(Txn txn) const { return evaluates(txn) ? most_items() : 1; }

std::uint32_t EpochEnds::most_items() const {
  if (!spec_.evaluates) return 1;
  return static_cast<std::uint32_t>(
      data::evaluation_batches(spec_.test->size(), spec_.options.evaluation_batch_size));
}

Status EpochEnds::evaluate(Txn txn, std::uint32_t index, comm::EvalCell& cell) const {
  cell.loss_sum = cell.correct = 0;
  cell.count = cell.left_out = 0;
  if (!evaluates(txn)) return {};
  const at::NoGradGuard no_grad;
  at::manual_seed(batch_seed(spec_.options.seed, spec_.plan.at(txn).global_step, index));
  const auto where = "evaluation batch " + std::to_string(index);
  return guarded(where, ErrorKind::kInternal, [&]() -> Status {
    LOCKSTEP_ASSIGN(
        const Score score,
        scored_batch(*spec_.test, spec_.options.evaluation_batch_size, index, hooks_.evaluation));
    cell.loss_sum = score.loss_sum;
    cell.correct = score.correct;
    cell.count = static_cast<std::uint64_t>(score.count);
    cell.left_out = static_cast<std::uint64_t>(score.left_out);
    return {};
  });
}

Result<bool> EpochEnds::call_exports(const EpochEnd& end) const {
  const auto where = "the files of epoch " + std::to_string(end.epoch);
  return guarded(where, ErrorKind::kInternal, [&] { return hooks_.exports(end); });
}

Status EpochEnds::write_what_is_missing(Txn end) const {
  if (book_ == nullptr || !hooks_.exports || book_->lost_exports() == 0) return {};
  const std::int64_t last = book_->last_lost();
  const std::string of_epochs = "the files of " + std::to_string(book_->lost_exports()) +
                                (book_->lost_exports() == 1 ? " epoch" : " epochs") +
                                " could not be written";
  if (last < 0) {
    log_warning(of_epochs + " (each is named above, or in the run before); later ones are there");
    return {};
  }
  const std::string weights =
      "; weights are in '" + spec_.options.output + "/checkpoints' (lockstep checkpoint export)";
  if (last != epoch_end(end).epoch)
    return Error{ErrorKind::kDisk, of_epochs + ", the last of them epoch " + std::to_string(last) +
                                       ", and nothing was to be written since" + weights +
                                       ". --resume never makes all of it again"};
  const at::NoGradGuard no_grad;
  const Result<bool> written = call_exports(epoch_end(end));
  if (!written.ok())
    return Error{ErrorKind::kDisk,
                 written.error().message + weights + ". The same command tries it again"};
  log_info("the files of epoch " + std::to_string(last) + " could be written now");
  if (const std::int64_t others = book_->lost_exports() - 1; others > 0)
    log_warning("those of " + std::to_string(others) + " before it are still missing");
  return {};
}

Status EpochEnds::export_files(Txn txn, const FileGuard& guard, comm::EvalCell& cell) const {
  const at::NoGradGuard no_grad;
  const Position position = spec_.plan.at(txn);
  at::manual_seed(batch_seed(spec_.options.seed, position.global_step, 0));
  bool written = false;
  const auto where = "the files of epoch " + std::to_string(position.epoch);
  const EpochEnd end = epoch_end(txn);
  const Status exported = [&]() -> Status {
    if (!hooks_.exports) return {};
    LOCKSTEP_TRY(guarded(where, ErrorKind::kInternal, guard.secure));
    LOCKSTEP_ASSIGN(written, call_exports(end));
    return {};
  }();
  // The best is kept whatever becomes of the program's own files.
  const Status kept = guarded(where, ErrorKind::kInternal,
                              [&] { return end.is_best() ? guard.keep_best() : Status(); });
  for (const Status& status : {exported, kept}) {
    if (status.ok()) continue;
    if (!spec_.options.continue_on_save_error)
      return Error{ErrorKind::kDisk, status.error().message + "; stopped (--on-save-error stop)"};
    log_warning(status.error().message + "; training goes on (--on-save-error continue)");
  }
  cell.loss_sum = 0;
  cell.correct = exported.ok() ? 0 : 1;
  cell.count = written ? 1 : 0;
  cell.left_out = 0;
  return {};
}

Score EpochEnds::score_of(Txn txn, comm::Exchange& exchange) const {
  Score score{0, 0, 0};
  for (std::uint32_t i = 0, count = items(txn); i < count; ++i) {
    const comm::EvalCell& cell = exchange.eval(i);
    score += {cell.loss_sum, cell.correct, static_cast<std::int64_t>(cell.count),
              static_cast<std::int64_t>(cell.left_out)};
  }
  return score;
}

EpochEnd EpochEnds::epoch_end(Txn txn) const {
  EpochEnd end = book_->last();
  end.train_losses = book_->train_losses(spec_.virtual_workers());
  end.epochs = spec_.plan.epochs;
  end.global_step = spec_.plan.at(txn).global_step;
  end.out_of_time = spec_.plan.stops() && end.global_step == spec_.plan.stop_after;
  end.history = book_->history();
  return end;
}

// With what is for lines alone.
EpochEnd EpochEnds::told_end(Txn txn) const {
  EpochEnd end = epoch_end(txn);
  end.seconds = seconds_;
  return end;
}

// What an evaluation at an epoch's end must have for what follows from it.
Status EpochEnds::check(const Score& score) const {
  if (score.count == 0 && score.left_out > 0)
    return Error{ErrorKind::kBadData, "nothing is left to evaluate: the data set left out all " +
                                          std::to_string(score.left_out) +
                                          " samples as damaged (each is named above)"};
  if (hooks_.of_accuracy() != nullptr && score.count > 0 && std::isnan(score.correct))
    return Error{ErrorKind::kUsage, std::string(hooks_.of_accuracy()) +
                                        ", but the evaluation counts nothing as correct: set "
                                        "Score::correct, or go by the loss"};
  return {};
}

// One epoch without it is one that is not the best. Before the first best it is a name that nobody
// knows.
Status EpochEnds::check_best(const Position& position) const {
  const std::string& name = hooks_.best.name;
  const EpochEnd before = book_->last();
  if (name.empty() || before.sums.has(name) || !std::isnan(before.best)) return {};
  std::string others;
  for (const auto& [other, sum] : before.sums)
    others += (others.empty() ? "'" : ", '") + other + "'";
  return Error{ErrorKind::kUsage,
               "epoch " + std::to_string(position.epoch) + ": Trainer::best(\"" + name +
                   "\"), but no share has added anything by that name (Share::add()); added was " +
                   (others.empty() ? "nothing" : others) +
                   ". Where there is nothing to add, add it with a count of 0"};
}

Status EpochEnds::end(Txn txn, comm::Exchange& exchange) {
  const Position position = spec_.plan.at(txn);
  if (position.kind == Kind::kEvaluation) return {};
  const comm::EvalCell& last = exchange.eval(items(txn) - 1);
  seconds_ = last.seconds;
  if (position.kind != Kind::kEpochEnd) {
    book_->ended_at(last.run_seconds);
    using Files = EpochBook::Files;
    book_->exported(position.epoch, last.correct != 0 ? Files::kLost
                                    : last.count != 0 ? Files::kWritten
                                                      : Files::kNone);
    return {};
  }
  const double rate = book_->rate();
  const Score score = score_of(txn, exchange);
  LOCKSTEP_TRY(check(score));
  if (spec_.plan.in_broken_end(txn)) {
    book_->end_broken(position.epoch, score, rate, hooks_.best, last.run_seconds);
    return {};
  }
  LOCKSTEP_TRY(check_best(position));
  book_->end(position.epoch, score, rate, hooks_.best, last.run_seconds);
  const EpochEnd end = epoch_end(txn);
  for (const auto& schedule : hooks_.schedules) schedule(end);
  return {};
}

bool EpochEnds::ends_run(Txn txn) const {
  return hooks_.stop_when && spec_.plan.closes_epoch(spec_.plan.at(txn).kind) &&
         hooks_.stop_when(epoch_end(txn));
}

// After end(): the book is of this one.
transaction::Lines EpochEnds::lines(Txn txn, comm::Exchange& exchange) const {
  const Kind kind = spec_.plan.at(txn).kind;
  if (kind == Kind::kEvaluation) return evaluation_lines(txn, score_of(txn, exchange));
  transaction::Lines lines =
      kind == Kind::kEpochEnd ? end_lines(txn) : export_lines(txn, exchange.eval(0).count != 0);
  const Plan& plan = spec_.plan;
  const bool last = plan.ended_early || (plan.stops() && !plan.breaks_epoch() &&
                                         plan.at(txn).global_step == plan.stop_after);
  if (last && plan.closes_epoch(kind)) lines.console += last_line(txn);
  return lines;
}

std::string EpochEnds::last_line(Txn txn) const {
  Position last_step = spec_.plan.at(txn);
  --last_step.step;
  // A time limit's end is for the program's own lines to tell.
  if (spec_.options.log_every.none() && spec_.plan.stops()) return "";
  return cut_line(last_step, spec_.plan, spec_.evaluates);
}

transaction::Lines EpochEnds::evaluation_lines(Txn txn, const Score& score) const {
  const Position position = spec_.plan.at(txn);
  transaction::Lines lines;
  lines.metrics = evaluation_metrics(txn, position, score, hooks_.evaluated_on);
  if (score.count > 0)
    lines.console = evaluation_line(position, spec_.plan, score, hooks_.evaluated_on);
  return lines;
}

transaction::Lines EpochEnds::end_lines(Txn txn) const {
  const EpochEnd end = told_end(txn);
  transaction::Lines lines;
  lines.metrics = epoch_metrics(txn, spec_.plan.at(txn), end, hooks_.evaluated_on);
  if (hooks_.epoch_lines) {
    lines.console = whole_lines(hooks_.epoch_lines(end));
  } else if (end.count > 0) {
    lines.console = evaluation_line(end, hooks_.evaluated_on);
  }
  return lines;
}

transaction::Lines EpochEnds::export_lines(Txn txn, bool written) const {
  transaction::Lines lines;
  lines.metrics = export_metrics(txn, spec_.plan.at(txn), written);
  EpochEnd end = told_end(txn);
  end.written = written;
  if (hooks_.export_lines) lines.console = whole_lines(hooks_.export_lines(end));
  return lines;
}

}  // namespace lockstep::training
