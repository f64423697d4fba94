// One update, as each worker makes it once its shares are whole: first what the shares' records say
// of it, then the optimizers' steps, then what it was, for lines, hooks and the loop. Nothing goes
// back from a later of these to an earlier one.
//
// Ownership: refers to the spec and the state. Errors: see read(). Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "lockstep/step.h"
#include "train/given_optimizers.h"
#include "train/run_spec.h"
#include "train/step_records.h"
#include "transaction/participant.h"

namespace lockstep::training {

class CommittedUpdate {
 public:
  CommittedUpdate(const RunSpec& spec, TrainState& state) : spec_(spec), state_(state) {}

  // What its shares have added up, and whether all is finite. Errors: kUsage for too many sums;
  // kBadData for what is not finite, with --on-nan stop: then nothing has changed.
  Status read(Txn txn, const StepRecords& records, transaction::Participant& participant);
  // Gradients are set: the optimizers' step(), unless it is left out.
  void make(const StepRecords& records);

  // Nothing has changed, by on_nan or as no share takes part; by on_nan (OnNan::kSkip) alone, where
  // its figures do not count either.
  bool left_out() const { return left_out_; }
  bool skipped() const { return not_finite_ && spec_.options.on_nan == OnNan::kSkip; }
  bool stepped() const { return result_.made(); }  // an optimizer
  const Sums& sums() const { return result_.sums; }
  const UpdateResult& result() const { return result_; }
  // What is not finite of it, in words.
  const std::optional<std::string>& not_finite() const { return not_finite_; }
  const std::vector<double>& rates() const { return rates_; }  // that it was made with

 private:
  std::optional<std::string> found_not_finite(const StepRecords& records,
                                              transaction::Participant& participant) const;
  // False: the scaler has left it out.
  bool step(const OptimizerList& chosen);
  // Clips, if that is asked for.
  std::optional<double> grad_norm(const OptimizerList& chosen) const;
  LeftOut why_left_out(const StepRecords& records, bool stepped) const;

  const RunSpec& spec_;
  TrainState& state_;
  std::optional<std::string> not_finite_;
  bool left_out_ = false;
  std::vector<double> rates_;
  UpdateResult result_;
};

}  // namespace lockstep::training
