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
#include "transaction/causes.h"

namespace lockstep::training {
namespace {

// NaN, too, of one that takes no part.
double loss_of(const coord::ShareRecord& record) {
  return unsigned_nan(record.loss_sum / static_cast<double>(record.loss_count));
}

std::string worker_of(int v) { return "the worker of virtual worker " + std::to_string(v); }

// By what the user has given up. Another V makes other sums.
const char* redone_of(const RunOptions& options) {
  if (options.deterministic != Deterministic::kStrict || options.new_virtual_workers) return "off";
  return options.rehearse == 0 ? "warn" : nullptr;
}

bool same_order(const coord::ShareRecord& a, const coord::ShareRecord& b) {
  return a.optimizers == b.optimizers &&
         std::equal(a.order, a.order + std::popcount(a.optimizers), b.order);
}

}  // namespace

Status StepRecords::check_optimizers(int u, int v) const {
  if (same_order(record(u), record(v))) return {};  // texts are made for an error alone
  return same_optimizers(state_, step_in_words(spec_.plan, txn_),
                         {optimizers_of(record(u)), worker_of(u)},
                         {optimizers_of(record(v)), worker_of(v)});
}

Status StepRecords::check(transaction::Participant& participant) const {
  const OptimizerList optimizers = this->optimizers();
  const std::uint64_t rates = rates_hash(state_, optimizers);
  const std::string step = step_in_words(spec_.plan, txn_) + ": ";
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).rates != rates)
      return Error{ErrorKind::kUsage,
                   step + rates_differ(optimizers, v) +
                       ": call set_lr() in every worker, with the same function of the step, "
                       "whatever its rank"};
  // After the rates, which are part of it and say more.
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).state != record(0).state)
      return Error{ErrorKind::kUsage,
                   step + "the state of virtual worker " + std::to_string(v) +
                       "'s worker differs from that of virtual worker 0's in " +
                       first_difference(participant, v) +
                       transaction::causes_of_states(participant.has_hooks()) +
                       "\n  The last checkpoint may have the difference: --checkpoint-every is " +
                       spec_.options.checkpoint_every.text()};
  return {};
}

std::string StepRecords::rates_differ(const OptimizerList& optimizers, int v) const {
  const Optimizer& first = *state_.optimizers()[optimizers.front()];
  if (optimizers.size() > 1 && record(v).rate == first.lr())
    return "a learning rate of " + names_of(state_, optimizers) + " is another one in " +
           worker_of(v) + " than in this one";
  return "the learning rate is " + shortest(record(v).rate) + " in " + worker_of(v) + " and " +
         shortest(first.lr()) + " in this one" +
         (optimizers.size() > 1 ? " (of " + names_of(state_, {optimizers.front()}) + ")"
          : first.groups() > 1  ? " (the first group's)"
                                : "");
}

std::string StepRecords::first_difference(transaction::Participant& participant, int v) const {
  const auto first = participant.notes(0).state();
  const auto other = participant.notes(static_cast<std::uint32_t>(v)).state();
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first[i].load(std::memory_order_relaxed) != other[i].load(std::memory_order_relaxed))
      return state_.part_in_words(i);
  return "some tensor";
}

const coord::ShareRecord* StepRecords::reported() const {
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).loss_count > 0) return &record(v);
  return nullptr;
}

double StepRecords::loss() const {
  const coord::ShareRecord* const share = reported();
  return share == nullptr ? std::numeric_limits<double>::quiet_NaN() : loss_of(*share);
}

bool StepRecords::end_run() const {
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v)
    if (record(v).ends != 0) return true;
  return false;
}

void StepRecords::add_to(EpochBook& book, bool counts) const {
  book.trained_at(record(0).rate);
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

StepEnd StepRecords::step_end(const EpochBook* book, const Sums& sums) const {
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
              {},
              sums};
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

std::vector<double> StepRecords::rates() const {
  std::vector<double> rates;
  for (const std::size_t number : optimizers())
    for (const double rate : state_.optimizers()[number]->rates()) rates.push_back(rate);
  return rates;
}

std::uint64_t StepRecords::samples() const {
  std::uint64_t samples = 0;
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) samples += record(v).loss_count;
  return samples;
}

double StepRecords::mean_loss() const {
  double sum = 0;
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) sum += record(v).loss_sum;
  return unsigned_nan(sum / static_cast<double>(samples()));
}

std::string StepRecords::metrics(const Committed& committed) const {
  const UpdateResult& result = committed.result;
  StepFigures figures{.loss = result.loss, .loss_mean = result.loss_mean, .samples = samples()};
  for (int v = 0; v < spec_.data_plan.virtual_workers; ++v) figures.replaced += replaced(v);
  figures.rates = committed.rates;
  if (state_.scaler() != nullptr) figures.scale = state_.scaler()->get_scale();
  figures.grad_norm = result.grad_norm;
  figures.skipped = committed.left_out;
  figures.ends = committed.ends;
  figures.sums = result.sums;
  if (spec_.plan.updates_per_step > 1) figures.update = position_.update;
  figures.has_epochs = spec_.has_data();
  if (position_.notes_state()) figures.state = record(0).state;
  figures.redone = redone_of(spec_.options);
  return step_metrics(txn_, position_, figures);
}

transaction::Lines StepRecords::lines(const Hooks& hooks, const EpochBook* book,
                                      const Committed& committed) const {
  const Plan& plan = spec_.plan;
  transaction::Lines lines;
  lines.metrics = metrics(committed);
  if (plan.completes_step(position_)) lines.console = step_lines(hooks, book, committed);
  const bool skipped = committed.left_out && committed.not_finite;
  if (committed.not_finite && (skipped || !committed.told_before))
    lines.console += not_finite_line(position_, plan, *committed.not_finite, skipped);
  return lines;
}

std::string StepRecords::step_lines(const Hooks& hooks, const EpochBook* book,
                                    const Committed& committed) const {
  const Plan& plan = spec_.plan;
  std::string lines;
  const bool prints = !spec_.options.log_every.none();
  const bool cut = position_.global_step + 1 == plan.total_steps() &&
                   (plan.ended_early || position_.step + 1 < plan.steps_per_epoch);
  if (hooks.step_lines) {
    lines = whole_lines(hooks.step_lines(step_end(book, committed.result.sums)));
  } else if (prints && (cut || spec_.line_due(position_))) {
    lines = step_line(position_, plan, committed.losses);
  }
  if (cut && (prints || !plan.stops()))
    lines +=
        cut_line(position_, plan, spec_.evaluates && !plan.evaluates_before(position_.step + 1));
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

bool StepRecords::told_before() const {
  if (!not_finite(txn_)) return false;  // a gradient
  const auto is_step = [&](std::uint64_t txn) {
    return spec_.plan.at(Txn(txn)).kind == Kind::kStep;
  };
  std::uint64_t back = 1;
  while (back <= txn_.value() && !is_step(txn_.value() - back)) ++back;
  if (txn_.value() < back) return false;
  const Txn before(txn_.value() - back);
  const std::uint64_t mark =
      board_.record(before, VirtualWorker(0)).mark.load(std::memory_order_acquire);
  return mark == before.value() + 1 && not_finite(before).has_value();
}

}  // namespace lockstep::training
