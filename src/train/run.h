// A run over a data plan: what Trainer and Step are fronts of. Wires its parts (shares, epochs'
// ends, checkpoints, the participant) and is the program that the participant goes through.
//
// Threads: one. Errors: the first is final.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "lockstep/data.h"
#include "lockstep/state.h"
#include "lockstep/trainer.h"
#include "rundir/manifest.h"
#include "train/checkpoints.h"
#include "train/committed_update.h"
#include "train/epoch_ends.h"
#include "train/given_step.h"
#include "train/gradient_flags.h"
#include "train/hooks.h"
#include "train/let_go.h"
#include "train/lines.h"
#include "train/marked_shares.h"
#include "train/rehearsals.h"
#include "train/run_identity.h"
#include "train/run_spec.h"
#include "train/run_start.h"
#include "train/shares.h"
#include "train/step_memory.h"
#include "train/step_records.h"
#include "train/training_modes.h"
#include "transaction/participant.h"
#include "transaction/program.h"

namespace lockstep::training {

class Run final : public transaction::Program {
 public:
  // `book`: see EpochEnds.
  Run(Context& context, TrainState& state, RunOptions options, EpochBook* book = nullptr);
  ~Run() override;  // alone, warns of a loop that has left the run before its end
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Hooks hooks;  // set before open()

  // What the program's own code throws (an optimizer, a text of the state) comes back as an error.
  Status open(std::shared_ptr<const data::Dataset> train,
              std::shared_ptr<const data::Dataset> test);
  // False: the run is over for this worker, all said and done.
  Result<bool> next();
  // The step that next() has announced. What the losses refer to outlives the call.
  Result<StepResult> run_next(std::vector<GivenUpdate> updates);
  const TrainState& state() const { return state_; }
  bool evaluates() const { return spec_.evaluates; }
  bool opened() const { return participant_ != nullptr; }
  Txn at() const { return participant_->next(); }
  Txn announced() const { return announced_txn_; }  // by next(), last; at() before the first
  bool is_first() const { return participant_->first_live(); }
  std::int64_t steps_per_epoch() const { return spec_.plan.steps_per_epoch; }
  std::int64_t total_steps() const { return spec_.plan.total_steps(); }
  std::int64_t planned_steps() const { return spec_.plan.planned_steps(); }

  Txn end() const override { return spec_.plan.end(); }
  bool is_step(Txn txn) const override { return spec_.plan.at(txn).kind == Kind::kStep; }
  bool is_border(Txn txn) const override { return spec_.plan.at(txn).update == 0; }
  std::uint32_t items(Txn txn) const override;
  std::int64_t epoch(Txn txn) const override { return spec_.plan.at(txn).epoch; }
  std::int64_t global_step(Txn txn) const override { return spec_.plan.at(txn).global_step; }
  std::string in_words(Txn txn) const override { return step_in_words(spec_.plan, txn); }
  std::int64_t epoch_step(Txn txn) const override { return spec_.plan.at(txn).step; }
  bool ends_epoch(Txn txn) const override { return training::ends_epoch(spec_.plan.at(txn).kind); }
  std::uint64_t steps_if_last(Txn txn) const override {
    return static_cast<std::uint64_t>(spec_.plan.steps_if_last(txn));
  }
  void stop_after(std::uint64_t steps) override {
    spec_.plan.stop_after = static_cast<std::int64_t>(steps);
  }
  bool looks_again(Txn txn) const override {
    return rehearsals_->promised() && spec_.plan.looks_again(spec_.plan.at(txn));
  }
  bool evaluates(Txn txn) const override {
    return spec_.plan.at(txn).kind != Kind::kExport && epoch_ends_.evaluates(txn);
  }
  std::vector<bool> rehearsed(Txn txn) const override {
    return rehearsals_->due(spec_.plan.at(txn), spec_.virtual_workers(), !state_.buffers().empty());
  }
  std::string doubt() const override;
  std::string module_in_words(std::size_t number) const override {
    return modes_->module_in_words(number);
  }
  bool promised() const override { return rehearsals_->promised(); }
  bool must_prove(Txn txn) const override {
    return rehearsals_->must_prove(spec_.plan.at(txn).update);
  }
  void proved(Txn txn) override { rehearsals_->proved(spec_.plan.at(txn).update); }
  Status compute_share(Txn txn, VirtualWorker v, transaction::ShareOutput& output) override;
  Status compute_batch(Txn txn, std::uint32_t index, comm::EvalCell& cell) override;
  Status check_marked(Txn txn, coord::Board board) override;
  Status check(Txn txn, coord::Board board) override;
  bool update(Txn txn, coord::Board board) override;
  Status updated(Txn txn) override;
  Status end_epoch(Txn txn, comm::Exchange& exchange) override;
  transaction::Lines lines(Txn txn, coord::Board board, comm::Exchange& exchange) const override;

 private:
  Status begin();
  TrainState::Text first_txn() const;
  transaction::ParticipantOptions participant_options() const;
  Status take_part(RunStart& start);
  void renew_half_weights();
  void refuse_within(const char* call) const;
  Result<bool> announce();
  Status leave_stopped();
  Status leave();
  Status run_updates();
  Status go_on_in_step();
  RunNotes notes() const;
  Status copy_if_due();
  std::uint64_t run_time() const;  // nanoseconds
  Status check_goes_on_as_before() const;
  Status check_witnessed(Txn txn);
  void tell_of_unused_data();
  void tell_of_world_size();
  Status last_words();
  void tell_what_is_missing() const;
  bool checkpoint_due(Txn txn) const;
  Status secure_origin(Txn txn);
  Status keep_best(Txn txn);
  void remember(const Position& position, const StepRecords& records);
  void heed_end(const Position& position);

  Context& context_;
  TrainState& state_;
  RunSpec spec_;
  std::shared_ptr<Plan> plan_{std::make_shared<bool>(), &spec_.plan};  // while this lives
  rundir::RunManifest manifest_;
  std::optional<Origin> origin_;
  UniqueFd run_lock_;  // of the run directory: the next launcher waits for the last holder
  EpochEnds epoch_ends_;
  std::unique_ptr<Shares> shares_;
  std::unique_ptr<transaction::Participant> participant_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::optional<StepMemory> memory_;  // made with the plans
  std::optional<GradientFlags> flags_;
  MarkedShares marked_;  // of the update under way
  std::optional<TrainingModes> modes_;
  std::optional<Rehearsals> rehearsals_;
  std::optional<LetGo> let_go_;
  GivenStep given_{spec_, state_};         // of the step under way
  CommittedUpdate update_{spec_, state_};  // that is being committed
  bool told_ = false;                      // that it is not finite, in the step before, of several
  std::vector<UpdateResult> results_;      // of the step under way
  Status files_;  // by who has the last words: whether some of the program's are missing
  std::uint64_t started_ns_ = 0;
  std::uint64_t checkpointed_ns_ = 0;  // by this worker; 0: never
  bool trained_ = false;               // a step or more in this start: its seconds count
  bool busy_ = false;                  // in open(), next() or run(): what calls them is within one
  bool announced_ = false;             // next() has said true, and the step has not been run
  bool over_ = false;                  // the loop was told so, or of an error
  bool stopping_ = false;              // the launcher asked for it, and run() is to say so
  bool unwitnessed_ = false;           // a newcomer's choices of optimizers, in its first step
  Txn announced_txn_{0};
  std::optional<Checkpoints::Loaded> gone_on_from_;  // of this start
  // Steps that this worker has run, until it is known whether they use the data set; none in a
  // newcomer.
  std::optional<std::int64_t> steps_watched_ = 0;
  std::uint64_t idle_steps_ = 0;  // in a row that changed nothing, up to now
};

}  // namespace lockstep::training
