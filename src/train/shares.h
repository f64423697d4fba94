// What a step computes: of each share its batches, forward and backward, and its record.
//
// Ownership: refers to all that it is given. Errors: those of the data and of the program's loss.
// Threads: one; the loader has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coord/board.h"
#include "lockstep/step.h"
#include "train/carried_rows.h"
#include "train/given_optimizers.h"
#include "train/run_spec.h"
#include "train/share_sums.h"
#include "transaction/participant.h"

namespace lockstep::training {

class Shares {
 public:
  static Result<std::unique_ptr<Shares>> make(const RunSpec& spec, const Hooks& hooks,
                                              const TrainState& state);

  // Whose update the next one is, and of which loss, which lives as long.
  void choose(OptimizerList optimizers, const Step::Closure& loss) {
    optimizers_ = std::move(optimizers);
    loss_ = &loss;
    heard_choice_ = false;
    rows_.begin_update();
  }
  // Whether one that died in this update has left word of its choice, the same.
  bool heard_choice() const { return heard_choice_; }
  Status compute(transaction::Participant& participant, Txn txn, VirtualWorker v,
                 transaction::ShareOutput& output);
  // Whether a loss has asked for its share's batch, here and so far.
  bool asked_for_batch() const { return asked_for_batch_; }
  // Whether a share of this update has carried a row, here.
  bool carried_any() const { return rows_.carried_any(); }
  // Damaged samples of the training set, among those that this worker has looked at.
  std::int64_t left_out() const { return loader_ != nullptr ? loader_->left_out() : 0; }

 private:
  Shares(const RunSpec& spec, const Hooks& hooks, const TrainState& state)
      : spec_(spec), hooks_(hooks), state_(state), rows_(state) {}
  bool compares(const Position& position, bool anyway) const;
  Status announce_choice(const ddp::Reducer& reducer, Txn txn,
                         const transaction::ShareOutput& output);
  const std::vector<std::uint64_t>& state_hashes(Txn txn);
  void note_state(Txn txn, const transaction::ShareOutput& output);
  // Of the share's batches, number k.
  data::ShareId id_of(const Position& position, std::int64_t v, std::int64_t k) const;
  Share share_of(const Position& position, VirtualWorker v, std::int64_t k,
                 const data::Batch* batch);
  Status check_draws(const std::string& before) const;
  Result<data::Batch> fetch(const Position& position, VirtualWorker v, std::int64_t k);
  Result<const data::Batch*> batch_of(transaction::Participant& participant, Txn txn,
                                      VirtualWorker v, std::int64_t k, bool again);
  void hint_next(transaction::Participant& participant, Txn txn, VirtualWorker current,
                 std::int64_t k);
  Status forward_backward(transaction::Participant& participant, Share part,
                          coord::ShareRecord& record);

  const RunSpec& spec_;
  const Hooks& hooks_;
  const TrainState& state_;
  std::unique_ptr<data::Loader> loader_;  // nullptr: a run without data
  OptimizerList optimizers_;
  const Step::Closure* loss_ = nullptr;
  // A step's batches of own shares, for its later updates, by virtual worker and number.
  std::map<std::pair<int, std::int64_t>, data::Batch> kept_;
  std::int64_t kept_step_ = -1;
  data::Batch batch_;       // that is not kept
  bool puts_back_ = false;  // a closure has written to the state, and put it back
  bool checked_draws_ = false, asked_for_batch_ = false, heard_choice_ = false;
  CarriedRows rows_;
  ShareSums sums_;
  std::optional<Txn> hashed_at_;  // the step whose start `hashes_` are of
  std::vector<std::uint64_t> hashes_;
};

}  // namespace lockstep::training
