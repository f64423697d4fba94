// A run over a data plan: what Trainer and Step are fronts of. Wires data, manifest, checkpoints
// and the participant, and is the program that the participant goes through.
//
// Threads: one. Errors: the first is final.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "lockstep/data.h"
#include "lockstep/state.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "train/checkpoints.h"
#include "train/epoch_book.h"
#include "train/manifest.h"
#include "train/participant.h"
#include "train/plan.h"
#include "train/program.h"

namespace lockstep::train {

class Run final : public Program {
 public:
  Run(Context& context, TrainState& state, RunOptions options);
  ~Run() override;  // alone, warns of a loop that has left the run before its end
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // What a share's loss is; may change between steps, as long as it does in all workers alike.
  Step::Closure loss;
  std::size_t optimizer = 0;  // which of the state's this step updates
  // With it and a test set, an epoch's end is evaluated.
  Trainer::Evaluation evaluation;
  // See Trainer; any of it makes an epoch's end a transaction.
  struct EpochHooks {
    EpochBook* book = nullptr;  // none: epochs have no end of their own
    BestOf best_of = BestOf::kNothing;
    std::vector<std::function<void(const EpochEnd&)>> schedules;
    std::function<std::string(const EpochEnd&)> lines, export_lines;
    std::function<Result<bool>(const EpochEnd&)> exports;
  };
  EpochHooks epochs;
  std::function<std::string(const StepEnd&)> own_step_lines;
  // See Trainer.
  std::function<Result<std::optional<std::int64_t>>()> start_from;
  std::function<void(std::int64_t epoch, std::int64_t step)> resumed;
  // Said once, see Trainer::on_finished().
  std::function<Status()> finished;

  // What the program's own code throws (an optimizer, a text of the state) comes back as an error.
  Status open(std::shared_ptr<const data::Dataset> train,
              std::shared_ptr<const data::Dataset> test);
  // False: the run is over for this worker, all said and done.
  Result<bool> next();
  Status run_next();
  const TrainState& state() const { return state_; }
  bool opened() const { return participant_ != nullptr; }
  Txn at() const { return participant_->next(); }
  std::int64_t steps_per_epoch() const { return plan_.steps_per_epoch; }
  std::int64_t total_steps() const { return plan_.total_steps(); }

  Txn end() const override { return plan_.end(); }
  bool is_step(Txn txn) const override { return plan_.at(txn).kind == Kind::kStep; }
  std::uint32_t items(Txn txn) const override;
  std::int64_t epoch(Txn txn) const override { return plan_.at(txn).epoch; }
  std::int64_t global_step(Txn txn) const override { return plan_.at(txn).global_step; }
  std::int64_t epoch_step(Txn txn) const override { return plan_.at(txn).step; }
  Status compute_share(Txn txn, VirtualWorker v, coord::ShareRecord& record) override;
  Status compute_batch(Txn txn, std::uint32_t index, comm::EvalCell& cell) override;
  void update(Txn txn, coord::Board board) override;
  void end_epoch(Txn txn, comm::Exchange& exchange) override;
  Status check(Txn txn, coord::Board board) const override;
  Lines lines(Txn txn, coord::Board board, comm::Exchange& exchange) const override;
  Status before(Txn txn, bool first) override;

 private:
  bool evaluates() const { return test_ != nullptr && evaluation != nullptr; }
  Status begin();
  Result<bool> announce();
  Status check_options() const;
  Result<int> choose_virtual_workers();
  Status prepare_data(int virtual_workers);
  Status make_manifest();
  Status take_part();
  Result<Txn> starting_point(bool first, bool checkpointed);
  Status bring_origin();
  Status secure_origin(Txn txn);
  void say_finished(Txn committed) const;
  Status start_over();
  Status write_identity();
  Status last_words();
  bool has_recorded(const std::string& result) const;
  Status forward_backward(Txn txn, VirtualWorker v, const data::Batch& batch,
                          coord::ShareRecord& record);
  Optimizer& optimizer_of(Txn txn, coord::Board board) const;
  bool checkpoint_due(Txn txn) const;
  bool compares(const Position& position) const;
  std::uint64_t state_hash(Txn txn);
  void hint_next(Txn txn, std::uint32_t current);
  Lines step_lines(Txn txn, coord::Board board) const;
  std::optional<VirtualWorker> not_finite(Txn txn, coord::Board board) const;
  std::optional<VirtualWorker> newly_not_finite(Txn txn, coord::Board board) const;
  StepEnd step_end(Txn txn, coord::Board board) const;
  Lines epoch_end_lines(Txn txn) const;
  Lines export_lines(Txn txn, comm::Exchange& exchange) const;
  Status export_files(Txn txn, comm::EvalCell& cell);
  Status evaluate(std::uint32_t index, comm::EvalCell& cell);
  std::uint32_t evaluation_batches() const;
  Score score_of(Txn txn, comm::Exchange& exchange) const;
  EpochEnd epoch_end(Txn txn) const;

  Context& context_;
  RunOptions options_;
  TrainState& state_;
  std::shared_ptr<const data::Dataset> train_, test_;
  Plan plan_;
  data::DataPlan data_plan_;
  std::unique_ptr<data::Loader> loader_;
  RunManifest manifest_;
  std::optional<RunManifest> before_;  // the run directory's, if a run is there
  UniqueFd run_lock_;  // of the run directory: the next launcher waits for the last holder
  std::unique_ptr<Participant> participant_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::uint64_t started_ns_ = 0;
  std::optional<Txn> hashed_at_;  // the step whose start `hash_` is of
  std::uint64_t hash_ = 0;
  // The run began elsewhere: at this epoch's start, from these weights.
  struct Origin {
    std::int64_t epoch = 0;
    std::string weights_sha256;
    bool here = false;  // they are in the state now
  };
  std::optional<Origin> origin_;
  bool trained_ = false;    // a step or more in this start: its seconds count
  bool announced_ = false;  // next() has said true, and the step has not been run
  bool over_ = false;       // the loop was told so, or of an error
};

}  // namespace lockstep::train
