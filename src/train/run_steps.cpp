// A run as the participant's program: what a step computes, and what is said about it.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "train/lines.h"
#include "train/run.h"

namespace lockstep::train {
namespace {

double loss_of(const coord::ShareRecord& record) {
  return record.loss_sum / static_cast<double>(record.loss_count);
}

}  // namespace

std::uint32_t Run::items(Txn txn) const {
  switch (plan_.at(txn).kind) {
    case Kind::kStep:
      return static_cast<std::uint32_t>(data_plan_.virtual_workers);
    case Kind::kEpochEnd:
      return evaluation_batches();
    case Kind::kExport:
      return 1;
  }
  return 0;
}

// One is enough for a step and its epoch's end: that of the next epoch's start, where another
// number of virtual workers may go on.
bool Run::checkpoint_due(Txn txn) const {
  return options_.checkpoint_every > 0 && txn.value() > 0 && is_step(txn) &&
         plan_.at(txn).global_step % options_.checkpoint_every == 0;
}

Status Run::before(Txn txn, bool first) {
  LOCKSTEP_TRY(checkpoints_->check());
  if (!first) return {};
  if (!checkpoint_due(txn)) return {};
  participant_->enter(coord::Phase::kSnapshot);
  LOCKSTEP_TRY(participant_->record_all());
  return checkpoints_->snapshot(plan_, txn);
}

// With each checkpoint, and in the last step.
bool Run::compares(const Position& position) const {
  return position.global_step + 1 == plan_.total_steps() ||
         (options_.checkpoint_every > 0 && position.global_step % options_.checkpoint_every == 0);
}

// Of the step's start, once for all own shares: buffers too are as they were then, whatever share
// was computed before.
std::uint64_t Run::state_hash(Txn txn) {
  if (hashed_at_ != txn) hash_ = state_.xxh3();
  hashed_at_ = txn;
  return hash_;
}

Status Run::compute_share(Txn txn, VirtualWorker v, coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  const Position position = plan_.at(txn);
  record.state = compares(position) ? state_hash(txn) : 0;
  participant_->enter(coord::Phase::kData, share);
  LOCKSTEP_ASSIGN(
      const data::Batch batch,
      loader_->get({{static_cast<std::uint64_t>(position.epoch), position.step}, v.value()}));
  const auto wanted = static_cast<std::size_t>(data_plan_.batch_at(position.step));
  if (batch.ids.size() != wanted)
    return Error{ErrorKind::kUsage, "the data set was asked for " + std::to_string(wanted) +
                                        " samples and gave the ids of " +
                                        std::to_string(batch.ids.size()) +
                                        ": Batch::ids must be those that it was asked for"};
  hint_next(txn, share);
  record.ids_count = batch.ids.size();
  std::copy(batch.ids.begin(), batch.ids.end(), record.ids());
  const auto where = [&] {
    return "epoch " + std::to_string(position.epoch) + ", step " + std::to_string(position.step) +
           ", virtual worker " + std::to_string(v.value());
  };
  return guarded(where, ErrorKind::kInternal,
                 [&] { return forward_backward(txn, v, batch, record); });
}

Status Run::forward_backward(Txn txn, VirtualWorker v, const data::Batch& batch,
                             coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  // Dropout and its like: a stream of its own for each (seed, step, virtual worker).
  at::manual_seed(share_seed(options_.seed, plan_.at(txn).global_step, v));
  participant_->enter(coord::Phase::kForward, share);
  const Position position = plan_.at(txn);
  Share part;
  part.virtual_worker_ = v.value();
  part.epoch_ = position.epoch;
  part.step_ = position.step;
  part.global_step_ = position.global_step;
  part.batch_ = &batch;
  const at::Tensor loss_value = loss(part);
  if (loss_value.numel() != 1 || !loss_value.requires_grad())
    return Error{ErrorKind::kUsage,
                 "the loss function must return one number that depends on the model; got " +
                     std::to_string(loss_value.numel()) + " elements" +
                     (loss_value.requires_grad() ? "" : " without a graph")};
  participant_->enter(coord::Phase::kBackward, share);
  loss_value.backward();
  const auto samples = static_cast<double>(batch.ids.size());
  record.loss_sum = loss_value.item<double>() * samples;
  record.loss_count = batch.ids.size();
  record.extra = optimizer;
  record.ends = part.ends_ ? 1 : 0;
  record.rate = state_.optimizers()[optimizer]->lr();
  record.rates = state_.optimizers()[optimizer]->rates_hash();
  return {};
}

// Only hints: which share comes next changes with the membership, the batches never.
void Run::hint_next(Txn txn, std::uint32_t current) {
  if (options_.prefetch_threads == 0) return;
  std::vector<data::ShareId> next;
  const auto add = [&](Txn t, std::uint32_t v) {
    const Position position = plan_.at(t);
    if (t < plan_.end() && position.kind == Kind::kStep)
      next.push_back({{static_cast<std::uint64_t>(position.epoch), position.step},
                      static_cast<std::int64_t>(v)});
  };
  const comm::Exchange& exchange = participant_->exchange();
  const auto& own = exchange.ownership().items_of(exchange.self());
  const auto at = std::find(own.begin(), own.end(), current);
  for (auto v = at == own.end() ? at : at + 1; v != own.end(); ++v) add(txn, *v);
  for (const std::uint32_t v : own) add(Txn(txn.value() + 1), v);
  loader_->prefetch(std::move(next));
}

Status Run::run_next() {
  if (!std::exchange(announced_, false))
    return Error{ErrorKind::kUsage, "run() without next(): next() announces each step, once"};
  trained_ = true;
  const auto where = [&] { return "step " + std::to_string(global_step(at())); };
  Status status = guarded(where, ErrorKind::kInternal, [&] { return participant_->run(); });
  over_ = !status.ok();
  return status;
}

Lines Run::lines(Txn txn, coord::Board board, comm::Exchange& exchange) const {
  switch (plan_.at(txn).kind) {
    case Kind::kStep:
      return step_lines(txn, board);
    case Kind::kEpochEnd:
      return epoch_end_lines(txn);
    case Kind::kExport:
      return export_lines(txn, exchange);
  }
  return {};
}

// Each worker updates its own state with its own rate.
Status Run::check(Txn txn, coord::Board board) const {
  const Optimizer& own = optimizer_of(txn, board);
  const std::uint64_t rates = own.rates_hash();
  const std::uint64_t first = board.record(txn, VirtualWorker(0)).state;
  const std::string step = "step " + std::to_string(plan_.at(txn).global_step) + ": ";
  for (int v = 0; v < data_plan_.virtual_workers; ++v) {
    const coord::ShareRecord& record = board.record(txn, VirtualWorker(v));
    if (record.state != first)
      return Error{ErrorKind::kUsage,
                   step + "the state of virtual worker " + std::to_string(v) +
                       "'s worker differs from that of virtual worker 0's: only step.run() may "
                       "change what is in the train state (checkpoints of the last " +
                       std::to_string(options_.checkpoint_every) + " steps may have it)"};
    if (record.rates != rates)
      return Error{ErrorKind::kUsage,
                   step + "the learning rate is " + shortest(record.rate) +
                       " in the worker of virtual worker " + std::to_string(v) + " and " +
                       shortest(own.lr()) + " in this one" +
                       (own.groups() > 1 ? " (the first group's)" : "") +
                       ": call set_lr() in every worker, with the same function of the step, "
                       "whatever its rank"};
  }
  return {};
}

// A newcomer has not seen the loop's choice: the share's record has it.
Optimizer& Run::optimizer_of(Txn txn, coord::Board board) const {
  return *state_.optimizers()[board.record(txn, VirtualWorker(0)).extra];
}

void Run::update(Txn txn, coord::Board board) {
  Optimizer& chosen = optimizer_of(txn, board);
  for (int v = 0; epochs.book != nullptr && v < data_plan_.virtual_workers; ++v) {
    const coord::ShareRecord& record = board.record(txn, VirtualWorker(v));
    epochs.book->add_share(record.loss_sum, record.loss_count, v == 0 && plan_.at(txn).step == 0);
  }
  if (options_.clip_grad_norm > 0) clip_grad_norm_(chosen.parameters(), options_.clip_grad_norm);
  chosen.step();
  const std::int64_t steps = plan_.at(txn).global_step + 1;
  for (int v = 0; v < data_plan_.virtual_workers; ++v)
    if (board.record(txn, VirtualWorker(v)).ends != 0 && steps < plan_.total_steps())
      plan_.end_after(steps);
}

StepEnd Run::step_end(Txn txn, coord::Board board) const {
  const Position at = plan_.at(txn);
  StepEnd end{at.epoch, at.step, plan_.epochs, plan_.steps_per_epoch, at.global_step, {}, {}};
  for (int v = 0; v < data_plan_.virtual_workers; ++v) {
    const coord::ShareRecord& record = board.record(txn, VirtualWorker(v));
    end.losses.push_back(loss_of(record));
    end.samples.push_back(static_cast<std::int64_t>(record.loss_count));
  }
  return end;
}

Lines Run::step_lines(Txn txn, coord::Board board) const {
  const Position position = plan_.at(txn);
  double sum = 0;
  std::uint64_t samples = 0;
  for (int v = 0; v < data_plan_.virtual_workers; ++v) {
    const coord::ShareRecord& record = board.record(txn, VirtualWorker(v));
    sum += record.loss_sum;
    samples += record.loss_count;
  }
  const coord::ShareRecord& first = board.record(txn, VirtualWorker(0));
  const double loss_value = loss_of(first);
  Lines lines;
  lines.metrics = step_metrics(txn, position, loss_value, sum / static_cast<double>(samples),
                               samples, optimizer_of(txn, board).rates());
  const std::int64_t every = std::min(options_.log_every, plan_.steps_per_epoch);
  const bool cut = position.global_step + 1 == plan_.total_steps() &&
                   (plan_.ended_early || position.step + 1 < plan_.steps_per_epoch);
  if (own_step_lines) {
    lines.console = own_step_lines(step_end(txn, board));
  } else if (every > 0 && (cut || (position.step + 1) % every == 0))
    lines.console = step_line(position, plan_, loss_value);
  if (every > 0 && cut) lines.console += cut_line(position, plan_, evaluates());
  if (const auto v = newly_not_finite(txn, board))
    lines.console += not_finite_line(position, plan_, *v, loss_of(board.record(txn, *v)));
  return lines;
}

std::optional<VirtualWorker> Run::not_finite(Txn txn, coord::Board board) const {
  for (int v = 0; v < data_plan_.virtual_workers; ++v)
    if (!std::isfinite(board.record(txn, VirtualWorker(v)).loss_sum)) return VirtualWorker(v);
  return std::nullopt;
}

// The first of a stretch: such losses stay, and one remark is enough. Where the step before is not
// known (the group has just begun) it is told again.
std::optional<VirtualWorker> Run::newly_not_finite(Txn txn, coord::Board board) const {
  const auto v = not_finite(txn, board);
  if (!v) return v;
  std::uint64_t back = 1;
  while (back <= txn.value() && !is_step(Txn(txn.value() - back))) ++back;
  if (txn.value() < back) return v;
  const Txn before(txn.value() - back);
  const std::uint64_t mark =
      board.record(before, VirtualWorker(0)).mark.load(std::memory_order_acquire);
  return mark == before.value() + 1 && not_finite(before, board) ? std::nullopt : v;
}

}  // namespace lockstep::train
