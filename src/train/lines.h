// What a run prints and writes about its steps: the tutorial's own lines, and metrics.jsonl. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "lockstep/trainer.h"
#include "train/plan.h"

namespace lockstep::training {

// Whether lines of metrics.jsonl have such a key, so that no sum may have its name.
bool is_metrics_key(std::string_view name);
// A program's own text, which may lack the last newline.
std::string whole_lines(std::string text);
// "step 5", or "step 5, update 1", from 0: for messages.
std::string step_in_words(const Plan& plan, Txn txn);
// `Epoch [1/10], Step [100/600], Loss: 2.1626`, with newline; losses: virtual worker 0's of each
// update, of which the first 8 are told, `none` of one in which no share took part; `…, no share
// took part`: of none of them. Without data `Step [100/5000], Loss: 2.1626`, or `Step [100]` where
// its end is not known; and so in the others.
std::string step_line(const Position& position, const Plan& plan,
                      const std::vector<std::optional<double>>& losses);
// `Epoch [1/10], Test loss: 0.0593, Accuracy: 98.12 % (9812/10000)`, with newline; or
// `Validation loss:`.
std::string evaluation_line(const EpochEnd& end, EvaluatedOn set);
// The same of one in the epoch, `Epoch [1/10], Step [300/600], Test loss: …`; position: behind its
// step.
std::string evaluation_line(const Position& position, const Plan& plan, const Score& score,
                            EvaluatedOn set);
// `The run ends here, at step 50 of 600 of epoch 1 (--max-steps); the epoch is not evaluated`.
std::string cut_line(const Position& position, const Plan& plan, bool evaluates);
// `Warning: Epoch [1/10], Step [6/600]: the loss of virtual worker 1 is nan; …`, `what` being the
// loss or the gradient.
std::string not_finite_line(const Position& position, const Plan& plan, const std::string& what,
                            bool skipped);
// Of an update, for metrics.jsonl.
struct StepFigures {
  double loss = 0;       // virtual worker 0's
  double loss_mean = 0;  // over all samples
  std::uint64_t samples = 0;
  std::vector<double> rates = {};        // a list where there are several groups, of the first 16
  std::optional<double> grad_norm = {};  // before clipping; nullopt: not computed
  std::optional<double> scale = {};      // with a GradScaler: the next step's
  bool skipped = false;                  // by --on-nan, or as no share took part
  bool ends = false;                     // the run, by a share or a hook
  std::int64_t replaced = 0;             // damaged samples for which others stood in
  std::optional<std::int64_t> update = {};  // from 0, in a run whose steps have several
  bool has_epochs = true;
  // Where the step, done again behind a checkpoint, may come out otherwise: "warn" is told of, and
  // ends no run; "off" is not compared.
  const char* redone = nullptr;
  std::optional<std::uint64_t> state = {};  // XXH3 of the state at the step's start
  Sums sums = {};
};
// {"txn":T,"step":S,"epoch":E,"update":…,"loss":…,"loss_hex":"0x1.…","loss_mean":…,"samples":…,
// "lr":…,"grad_norm":…,"scale":…,"skipped":true,"ends":true,"replaced":…,"state_xxh3":"…",
// "redone":…}, without what does not apply; sums last: "reward":MEAN,"sums":{"reward":[SUM,COUNT]}.
// Where it came out otherwise as it was done again the recorder adds "before":{…}, the earlier
// line.
std::string step_metrics(Txn txn, const Position& position, const StepFigures& figures);
// {…,"train_loss":…,"lr":…}, "train_accuracy" where it is counted and, with a test set,
// "test_loss", "test_accuracy", "test_correct", "test_samples"; "valid_…" with a validation set.
// "train_replaced" and "test_left_out": damaged samples, if any. Sums as a step's.
std::string epoch_metrics(Txn txn, const Position& position, const EpochEnd& end, EvaluatedOn set);
// {…,"epoch_step":S,"test_loss":…} and the others of an evaluation, behind S steps of the epoch.
std::string evaluation_metrics(Txn txn, const Position& position, const Score& score,
                               EvaluatedOn set);
// {…,"exported":true}
std::string export_metrics(Txn txn, const Position& position, bool written);
// `left out as damaged in the last epoch: 2 samples in training, where the next ones stood in; 1
// sample in the evaluation (…)`, for the run's end; empty where none was.
std::string left_out_text(const EpochEnd& last);
// The same of a run without epochs' ends, by what one worker has seen of the training set.
std::string left_out_text(std::int64_t seen);
// Python's str(timedelta): `0:00:26.337336`.
std::string duration_text(double seconds);

}  // namespace lockstep::training
