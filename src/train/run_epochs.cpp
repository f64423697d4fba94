// A run as the participant's program, between epochs: evaluation, what follows from it, files.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "base/guard.h"
#include "base/log.h"
#include "train/lines.h"
#include "train/run.h"

namespace lockstep::train {

// An end without a test set has one part, which is nothing: so it is agreed on as any other.
std::uint32_t Run::evaluation_batches() const {
  if (!evaluates()) return 1;
  return static_cast<std::uint32_t>(
      data::evaluation_batches(test_->size(), options_.evaluation_batch_size));
}

Status Run::compute_batch(Txn txn, std::uint32_t index, comm::EvalCell& cell) {
  const at::NoGradGuard no_grad;
  at::manual_seed(batch_seed(options_.seed, plan_.at(txn).global_step, index));
  if (plan_.at(txn).kind == Kind::kExport) return export_files(txn, cell);
  if (evaluates()) return evaluate(index, cell);
  cell.loss_sum = cell.correct = 0;
  cell.count = 0;
  return {};
}

Status Run::evaluate(std::uint32_t index, comm::EvalCell& cell) {
  LOCKSTEP_ASSIGN(const data::Batch batch,
                  data::evaluation_batch(*test_, options_.evaluation_batch_size, index));
  const auto where = "evaluation batch " + std::to_string(index);
  return guarded(where, ErrorKind::kInternal, [&]() -> Status {
    const Score score = evaluation(batch);
    cell.loss_sum = score.loss_sum;
    cell.correct = score.correct;
    cell.count = static_cast<std::uint64_t>(score.count);
    return {};
  });
}

// cell.count: whether something was written.
Status Run::export_files(Txn txn, comm::EvalCell& cell) {
  participant_->enter(coord::Phase::kSnapshot);  // a disk may be slow
  bool written = false;
  Status status = guarded("the files of epoch " + std::to_string(plan_.at(txn).epoch),
                          ErrorKind::kInternal, [&]() -> Status {
                            LOCKSTEP_TRY(secure_origin(txn));
                            LOCKSTEP_ASSIGN(written, epochs.exports(epoch_end(txn)));
                            return {};
                          });
  if (!status.ok() && !options_.continue_on_save_error)
    return Error{ErrorKind::kDisk, status.error().message + "; stopped (--on-save-error stop)"};
  if (!status.ok())
    log_warning(status.error().message + "; training goes on (--on-save-error continue)");
  cell.loss_sum = cell.correct = 0;
  cell.count = written ? 1 : 0;
  return {};
}

Score Run::score_of(Txn txn, comm::Exchange& exchange) const {
  Score score{0, 0, 0};
  for (std::uint32_t i = 0; i < items(txn); ++i) {
    const comm::EvalCell& cell = exchange.eval(i);
    score.loss_sum += cell.loss_sum;
    score.correct += cell.correct;
    score.count += static_cast<std::int64_t>(cell.count);
  }
  return score;
}

EpochEnd Run::epoch_end(Txn txn) const {
  EpochEnd end = epochs.book->last();
  end.epochs = plan_.epochs;
  end.global_step = plan_.at(txn).global_step;
  return end;
}

void Run::end_epoch(Txn txn, comm::Exchange& exchange) {
  const Position position = plan_.at(txn);
  if (position.kind != Kind::kEpochEnd) return;
  epochs.book->end(position.epoch, score_of(txn, exchange), state_.optimizers().front()->lr(),
                   epochs.best_of);
  const EpochEnd end = epoch_end(txn);
  for (const auto& schedule : epochs.schedules) schedule(end);
}

// After end_epoch(): the book is of this one.
Lines Run::epoch_end_lines(Txn txn) const {
  const EpochEnd end = epoch_end(txn);
  Lines lines;
  lines.metrics = epoch_metrics(txn, plan_.at(txn), end);
  if (epochs.lines) {
    lines.console = epochs.lines(end);
  } else if (evaluates()) {
    lines.console = evaluation_line(end);
  }
  return lines;
}

Lines Run::export_lines(Txn txn, comm::Exchange& exchange) const {
  const bool written = exchange.eval(0).count != 0;
  Lines lines;
  lines.metrics = export_metrics(txn, plan_.at(txn), written);
  if (written && epochs.export_lines) lines.console = epochs.export_lines(epoch_end(txn));
  return lines;
}

}  // namespace lockstep::train
