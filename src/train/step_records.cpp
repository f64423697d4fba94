#include "train/step_records.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/text.h"
#include "train/given_optimizers.h"
#include "train/lines.h"
#include "train/unsigned_nan.h"

namespace lockstep::training {
namespace {

double loss_of(const coord::ShareRecord& record) {
  return unsigned_nan(record.loss_sum / static_cast<double>(record.loss_count));
}

}  // namespace

Status StepRecords::check_marked() const {
  const auto worker_of = [](int v) { return "the worker of virtual worker " + std::to_string(v); };
  std::optional<int> first;
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) {
    if (record(v).mark.load(std::memory_order_acquire) != txn_.value() + 1) continue;
    if (!first) first = v;
    LOCKSTEP_TRY(same_optimizers(state_, position_.global_step,
                                 {record(*first).extra, worker_of(*first)},
                                 {record(v).extra, worker_of(v)}));
  }
  return {};
}

Status StepRecords::check(transaction::Participant& participant) const {
  LOCKSTEP_TRY(check_marked());
  const Optimizer& own = optimizer();
  const std::uint64_t rates = own.rates_hash();
  const std::string step = "step " + std::to_string(position_.global_step) + ": ";
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).rates != rates)
      return Error{ErrorKind::kUsage,
                   step + "the learning rate is " + shortest(record(v).rate) +
                       " in the worker of virtual worker " + std::to_string(v) + " and " +
                       shortest(own.lr()) + " in this one" +
                       (own.groups() > 1 ? " (the first group's)" : "") +
                       ": call set_lr() in every worker, with the same function of the step, "
                       "whatever its rank"};
  // After the rates, which are part of it and say more.
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).state != record(0).state)
      return Error{ErrorKind::kUsage,
                   step + "the state of virtual worker " + std::to_string(v) +
                       "'s worker differs from that of virtual worker 0's in " +
                       first_difference(participant, v) +
                       ": what changes the train state beside step.run() stands between next() "
                       "and run(), in every worker alike, and is a function of the step, not of "
                       "the rank or of how often the loop has gone round (the last checkpoint may "
                       "have the difference: --checkpoint-every is " +
                       spec_.options.checkpoint_every.text() + ")"};
  return {};
}

std::string StepRecords::first_difference(transaction::Participant& participant, int v) const {
  const auto first = participant.notes(0).state();
  const auto other = participant.notes(static_cast<std::uint32_t>(v)).state();
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].load(std::memory_order_relaxed) != other[i].load(std::memory_order_relaxed))
      return state_.tensor_in_words(i);
  return "some tensor";
}

Optimizer& StepRecords::optimizer() const {
  return *state_.optimizers()[static_cast<std::size_t>(std::countr_zero(optimizers()))];
}

bool StepRecords::end_run() const {
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).ends != 0) return true;
  return false;
}

void StepRecords::add_to(EpochBook& book, bool counts) const {
  for (std::uint32_t v = 0; v < spec_.virtual_workers(); ++v) {
    const coord::ShareRecord& share = record(static_cast<int>(v));
    Score score{0, 0, 0};
    if (counts)
      score = {share.loss_sum, share.correct, static_cast<std::int64_t>(share.loss_count)};
    book.add_share(v, score, position_.step == 0, replaced(static_cast<int>(v)));
  }
}

std::int64_t StepRecords::replaced(int v) const {
  return std::ranges::count_if(record(v).samples(), &coord::ShareRecord::Sample::replaced);
}

StepEnd StepRecords::step_end(const EpochBook* book) const {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const Plan& plan = spec_.plan;
  StepEnd end{position_.epoch,
              position_.step,
              plan.epochs,
              plan.steps_per_epoch,
              position_.global_step,
              spec_.line_due(position_),
              spec_.line_begins(position_),
              none,
              none,
              {},
              {}};
  if (book != nullptr && position_.epoch > 0) {
    const EpochEnd before = book->last_whole();
    end.last_train_loss = before.train_loss;
    end.last_loss = before.loss;
  }
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) {
    end.losses.push_back(loss_of(record(v)));
    end.samples.push_back(static_cast<std::int64_t>(record(v).loss_count));
  }
  return end;
}

transaction::Lines StepRecords::lines(const Hooks& hooks, const EpochBook* book,
                                      const std::optional<std::string>& not_finite,
                                      bool skipped) const {
  const Plan& plan = spec_.plan;
  double sum = 0;
  std::uint64_t samples = 0;
  std::int64_t instead = 0;
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) {
    sum += record(v).loss_sum;
    samples += record(v).loss_count;
    instead += replaced(v);
  }
  const double loss = loss_of(record(0));
  std::optional<double> scale;
  if (state_.scaler() != nullptr) scale = state_.scaler()->get_scale();
  transaction::Lines lines;
  lines.metrics = step_metrics(txn_, position_, loss, sum / static_cast<double>(samples), samples,
                               optimizer().rates(), scale, skipped, instead);
  const bool prints = !spec_.options.log_every.none();
  const bool cut = position_.global_step + 1 == plan.total_steps() &&
                   (plan.ended_early || position_.step + 1 < plan.steps_per_epoch);
  if (hooks.step_lines) {
    lines.console = whole_lines(hooks.step_lines(step_end(book)));
  } else if (prints && (cut || spec_.line_due(position_))) {
    lines.console = step_line(position_, plan, loss);
  }
  if (cut && (prints || !plan.stops()))
    lines.console +=
        cut_line(position_, plan, spec_.evaluates && !plan.evaluates_before(position_.step + 1));
  if (not_finite && (skipped || !told_before()))
    lines.console += not_finite_line(position_, plan, *not_finite, skipped);
  return lines;
}

std::optional<VirtualWorker> StepRecords::not_finite(Txn txn) const {
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (!std::isfinite(board_.record(txn, VirtualWorker(v)).loss_sum)) return VirtualWorker(v);
  return std::nullopt;
}

std::optional<std::string> StepRecords::loss_not_finite() const {
  const auto v = not_finite(txn_);
  if (!v) return std::nullopt;
  const double loss = loss_of(record(v->value()));
  return "the loss of virtual worker " + std::to_string(v->value()) + " is " + shortest(loss);
}

// Such losses stay, and the first of a stretch is enough of a remark. Where the step before is not
// known (the group has just begun) it is made again.
bool StepRecords::told_before() const {
  if (!not_finite(txn_)) return false;  // a gradient
  std::uint64_t back = 1;
  while (back <= txn_.value() && spec_.plan.at(Txn(txn_.value() - back)).kind != Kind::kStep)
    ++back;
  if (txn_.value() < back) return false;
  const Txn before(txn_.value() - back);
  const std::uint64_t mark =
      board_.record(before, VirtualWorker(0)).mark.load(std::memory_order_acquire);
  return mark == before.value() + 1 && not_finite(before).has_value();
}

}  // namespace lockstep::training
