#include "train/epoch_book.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "coord/table.h"
#include "train/share_sums.h"
#include "train/unsigned_nan.h"

namespace lockstep::training {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double metric_of(const EpochEnd& end, const BestBy& best_by) {
  if (!best_by.name.empty()) return unsigned_nan(end.sums[best_by.name].mean());
  if (best_by.of == BestOf::kAccuracy) return end.accuracy;
  return best_by.of == BestOf::kLoss ? end.loss : end.train_loss;
}

// What is not a number is never the best; the first number is.
bool better(double now, double before, const BestBy& best_by) {
  if (std::isnan(now)) return false;
  if (std::isnan(before)) return true;
  return best_by.greatest() ? now > before : now < before;
}

}  // namespace

EpochBook::EpochBook()
    : figures_(at::zeros({2, kFigures}, at::kDouble)),
      train_sums_(at::zeros({coord::kMaxVirtualWorkers}, at::kDouble)),
      train_counts_(at::zeros_like(train_sums_)) {
  at(kEpoch) = at(kBestEpoch) = at(kLastLost) = -1;
  at(kBest) = at(kBestBefore) = kNone;
}

double& EpochBook::at(Figure figure, Row row) {
  return figures_.mutable_data_ptr<double>()[row * kFigures + figure];
}

double EpochBook::get(Figure figure, Row row) const {
  return figures_.const_data_ptr<double>()[row * kFigures + figure];
}

void EpochBook::begin_at(const StartPoint& start) {
  if (keeps_history_)
    for (const EpochFigures& figures : start.history) history_.add(figures);
  const EpochFigures before =
      start.history.empty() ? EpochFigures{kNone, kNone} : start.history.back();
  at(kTrain) = before.train_loss;
  at(kLossSum) = before.loss;
  at(kCount) = 1;  // of its samples only the mean is known
  if (std::isnan(start.best)) return;
  at(kBest) = start.best;
  at(kBestEpoch) = static_cast<double>(start.epoch - 1);
}

void EpochBook::add_share(std::uint32_t v, const Score& share, bool first, std::int64_t replaced) {
  const auto add = [](double& sum, double value, bool anew) { sum = (anew ? 0 : sum) + value; };
  const auto samples = static_cast<double>(share.count);
  const bool anew = first && v == 0;
  if (v == 0 && was_broken()) {  // and the run has gone on after all
    figures_[kBroken].zero_();
    history_.forget_broken();
  }
  add(at(kTrainSum), share.loss_sum, anew);
  add(at(kTrainCorrect), share.correct, anew);
  add(at(kTrainCount), samples, anew);
  add(at(kTrainReplaced), static_cast<double>(replaced), anew);
  add(train_sums_.mutable_data_ptr<double>()[v], share.loss_sum, first);
  add(train_counts_.mutable_data_ptr<double>()[v], samples, first);
}

Status EpochBook::check_sums(const std::string& where, const Sums& step, bool first) const {
  return check_sum_names(where, sums_.with(step, first));
}

void EpochBook::add_sums(const Sums& step, bool first) {
  if (!step.empty() || first) sums_.set(sums_.with(step, first));
}

std::vector<double> EpochBook::train_losses(std::uint32_t virtual_workers) const {
  const double* const sums = train_sums_.const_data_ptr<double>();
  const double* const counts = train_counts_.const_data_ptr<double>();
  std::vector<double> losses(virtual_workers);
  for (std::size_t v = 0; v < losses.size(); ++v) losses[v] = unsigned_nan(sums[v] / counts[v]);
  return losses;
}

void EpochBook::end(std::int64_t epoch, const Score& score, double rate, const BestBy& best_by,
                    double run_seconds) {
  close(kWhole, epoch, score, rate, best_by);
  if (!keeps_history_) return;
  const EpochEnd end = told(kWhole);
  history_.add({end.train_loss, end.loss, run_seconds});
}

void EpochBook::end_broken(std::int64_t epoch, const Score& score, double rate,
                           const BestBy& best_by, double run_seconds) {
  figures_[kBroken].copy_(figures_[kWhole]);
  close(kBroken, epoch, score, rate, best_by);
  const EpochEnd end = told(kBroken);
  if (keeps_history_) history_.add_broken({end.train_loss, end.loss, run_seconds});
}

void EpochBook::exported(std::int64_t epoch, Files files) {
  if (files == Files::kNone) return;
  if (files == Files::kLost) ++at(kLost);
  at(kLastLost) = files == Files::kLost ? static_cast<double>(epoch) : -1;
}

TrainState::Text EpochBook::keep_history() {
  keeps_history_ = true;
  return history_.text();
}

Status EpochBook::check_epochs(std::int64_t epochs) const {
  if (!keeps_history_ || epochs <= EpochHistory::kMost) return {};
  return Error{ErrorKind::kUsage, "keep_history() has room for " +
                                      std::to_string(EpochHistory::kMost) +
                                      " epochs, and the run is to have " + std::to_string(epochs) +
                                      ": give fewer, or longer ones"};
}

void EpochBook::close(Row row, std::int64_t epoch, const Score& score, double rate,
                      const BestBy& best_by) {
  at(kEpoch, row) = static_cast<double>(epoch);
  at(kTrain, row) = at(kTrainSum, row) / at(kTrainCount, row);
  at(kTrainAccuracy, row) = at(kTrainCorrect, row) / at(kTrainCount, row);
  at(kLossSum, row) = score.loss_sum;
  at(kCorrect, row) = score.correct;
  at(kCount, row) = static_cast<double>(score.count);
  at(kLeftOut, row) = static_cast<double>(score.left_out);
  at(kRate, row) = rate;
  at(kBestBefore, row) = at(kBest, row);
  if (best_by.nothing()) return;
  const double now = metric_of(told(row), best_by);
  if (!better(now, at(kBest, row), best_by)) return;
  at(kBest, row) = now;
  at(kBestEpoch, row) = static_cast<double>(epoch);
}

// One of which no sample counted has the mean 0/0.
bool EpochBook::was_broken() const {
  return get(kTrainCount, kBroken) > 0 || std::isnan(get(kTrain, kBroken));
}

EpochEnd EpochBook::last() const {
  const bool broken = was_broken();
  EpochEnd end = told(broken ? kBroken : kWhole);
  end.broken = broken;
  return end;
}

EpochEnd EpochBook::told(Row row) const {
  EpochEnd end;
  end.epoch = static_cast<std::int64_t>(get(kEpoch, row));
  end.train_loss = unsigned_nan(get(kTrain, row));
  end.train_accuracy = unsigned_nan(get(kTrainAccuracy, row));
  end.count = static_cast<std::int64_t>(get(kCount, row));
  end.train_replaced = static_cast<std::int64_t>(get(kTrainReplaced, row));
  end.left_out = static_cast<std::int64_t>(get(kLeftOut, row));
  end.loss = end.count > 0 ? unsigned_nan(get(kLossSum, row) / get(kCount, row)) : kNone;
  end.correct = end.count > 0 ? unsigned_nan(get(kCorrect, row)) : kNone;
  end.accuracy = unsigned_nan(end.correct / get(kCount, row));
  end.lr = get(kRate, row);
  end.best = get(kBest, row);
  end.best_epoch = static_cast<std::int64_t>(get(kBestEpoch, row));
  end.best_before = get(kBestBefore, row);
  end.sums = sums_.all();
  return end;
}

}  // namespace lockstep::training
