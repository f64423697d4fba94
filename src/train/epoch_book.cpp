#include "train/epoch_book.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "coord/table.h"

namespace lockstep::training {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double metric_of(const EpochEnd& end, BestOf best_of) {
  if (best_of == BestOf::kAccuracy) return end.accuracy;
  return best_of == BestOf::kLoss ? end.loss : end.train_loss;
}

// What is not a number is never the best; the first number is.
bool better(double now, double before, BestOf best_of) {
  if (std::isnan(now)) return false;
  if (std::isnan(before)) return true;
  return best_of == BestOf::kAccuracy ? now > before : now < before;
}

}  // namespace

EpochBook::EpochBook()
    : figures_(at::zeros({2, kFigures}, at::kDouble)),
      train_sums_(at::zeros({coord::kMaxVirtualWorkers}, at::kDouble)),
      train_counts_(at::zeros_like(train_sums_)) {
  at(kEpoch) = at(kBestEpoch) = -1;
  at(kBest) = at(kBestBefore) = kNone;
}

double& EpochBook::at(Figure figure) const {
  return figures_.mutable_data_ptr<double>()[row_ * kFigures + static_cast<std::size_t>(figure)];
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

void EpochBook::add_share(std::uint32_t v, const Score& share, bool first) {
  const auto add = [](double& sum, double value, bool anew) { sum = (anew ? 0 : sum) + value; };
  const auto samples = static_cast<double>(share.count);
  const bool anew = first && v == 0;
  if (v == 0 && was_broken()) {  // and the run has gone on after all
    figures_[1].zero_();
    history_.forget_broken();
  }
  add(at(kTrainSum), share.loss_sum, anew);
  add(at(kTrainCorrect), share.correct, anew);
  add(at(kTrainCount), samples, anew);
  add(at(kTrainLeftOut), static_cast<double>(share.left_out), anew);
  add(train_sums_.mutable_data_ptr<double>()[v], share.loss_sum, first);
  add(train_counts_.mutable_data_ptr<double>()[v], samples, first);
}

std::vector<double> EpochBook::train_losses(std::uint32_t virtual_workers) const {
  const double* const sums = train_sums_.const_data_ptr<double>();
  const double* const counts = train_counts_.const_data_ptr<double>();
  std::vector<double> losses(virtual_workers);
  for (std::size_t v = 0; v < losses.size(); ++v) losses[v] = sums[v] / counts[v];
  return losses;
}

void EpochBook::end(std::int64_t epoch, const Score& score, double rate, BestOf best_of,
                    double run_seconds) {
  close(epoch, score, rate, best_of);
  if (!keeps_history_) return;
  const EpochEnd end = told();
  history_.add({end.train_loss, end.loss, run_seconds});
}

void EpochBook::end_broken(std::int64_t epoch, const Score& score, double rate, BestOf best_of,
                           double run_seconds) {
  figures_[1].copy_(figures_[0]);
  row_ = 1;
  close(epoch, score, rate, best_of);
  const EpochEnd end = told();
  row_ = 0;
  if (keeps_history_) history_.add_broken({end.train_loss, end.loss, run_seconds});
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

void EpochBook::close(std::int64_t epoch, const Score& score, double rate, BestOf best_of) {
  at(kEpoch) = static_cast<double>(epoch);
  at(kTrain) = at(kTrainSum) / at(kTrainCount);
  at(kTrainAccuracy) = at(kTrainCorrect) / at(kTrainCount);
  at(kLossSum) = score.loss_sum;
  at(kCorrect) = score.correct;
  at(kCount) = static_cast<double>(score.count);
  at(kLeftOut) = static_cast<double>(score.left_out);
  at(kRate) = rate;
  at(kBestBefore) = at(kBest);
  if (best_of == BestOf::kNothing) return;
  const double now = metric_of(told(), best_of);
  if (!better(now, at(kBest), best_of)) return;
  at(kBest) = now;
  at(kBestEpoch) = static_cast<double>(epoch);
}

bool EpochBook::was_broken() const {
  return figures_.const_data_ptr<double>()[kFigures + kTrainCount] > 0;
}

EpochEnd EpochBook::last() const {
  row_ = was_broken() ? 1 : 0;
  EpochEnd end = told();
  end.broken = row_ == 1;
  row_ = 0;
  return end;
}

EpochEnd EpochBook::told() const {
  EpochEnd end;
  end.epoch = static_cast<std::int64_t>(at(kEpoch));
  end.train_loss = at(kTrain);
  end.train_accuracy = at(kTrainAccuracy);
  end.count = static_cast<std::int64_t>(at(kCount));
  end.train_left_out = static_cast<std::int64_t>(at(kTrainLeftOut));
  end.left_out = static_cast<std::int64_t>(at(kLeftOut));
  end.loss = end.count > 0 ? at(kLossSum) / at(kCount) : kNone;
  end.correct = end.count > 0 ? at(kCorrect) : kNone;
  end.accuracy = end.correct / at(kCount);
  end.lr = at(kRate);
  end.best = at(kBest);
  end.best_epoch = static_cast<std::int64_t>(at(kBestEpoch));
  end.best_before = at(kBestBefore);
  return end;
}

}  // namespace lockstep::training
