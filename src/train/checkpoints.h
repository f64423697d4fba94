// A run's checkpoints, as the run sees them: load the newest that fits, copy the state and write it
// in the background, save the last one now. Formats and publication are the checkpoint room's.
//
// Errors: kBadData for another run's or damaged ones only; kUsage; kDisk when saving fails and the
// run must stop for it (--on-save-error stop), otherwise said aloud and passed over. Threads: one;
// the writer's own thread is inside.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/search.h"
#include "checkpoint/writer.h"
#include "lockstep/run_options.h"
#include "lockstep/state.h"
#include "rundir/manifest.h"
#include "train/given_optimizers.h"
#include "train/plan.h"
#include "train/state_texts.h"
#include "worker/session.h"

namespace lockstep::training {

class Checkpoints {
 public:
  // `run_lock`: the run directory's descriptor, open as long as the object lives.
  Checkpoints(worker::Session& session, TrainState& state, const RunOptions& options,
              const rundir::RunManifest& manifest, int run_lock);
  ~Checkpoints();

  struct Loaded {
    Txn next;          // the state is that of its start
    bool own = false;  // of this run: not that of --resume PATH, which may be of another
    RunNotes notes;
  };
  // Into the state. nullopt: none yet, start from the seed. `first`: this worker removes what a
  // killed writer left, and says what was skipped. `checkpointed`: this launch has published one,
  // which comes before --resume PATH. With --new-virtual-workers a checkpoint of another V is taken
  // at an epoch's start; `plan`, which is the state's, goes on from its number.
  Result<std::optional<Loaded>> load(Plan& plan, bool checkpointed, bool first);

  // kDisk: one could not be saved, and the run is to stop for it.
  Status check() const;
  // Of `notes` what the run alone knows: the rest follows from the plan.
  // Copies the state of the start of `next`, for hand_over(), before the program's loop changes it;
  // skipped while the last one is being written.
  Status copy(const Plan& plan, Txn next, const RunNotes& notes);
  // The same of where the run stops, for save(): never skipped. Errors are save()'s.
  Status copy_of_stop(const Plan& plan, Txn next, const RunNotes& notes);
  bool has_copy() const { return copy_.has_value(); }
  // The copy, if there is one, is written in the background. Of several optimizers: which ones the
  // step behind it is given, by update.
  Status hand_over(std::vector<OptimizerList> optimizers);
  // Returns once the checkpoint of the start of `next` is published, which is copied if it is not
  // yet: the run stops or ends here. At its end it is kDisk if that cannot be, whatever
  // --on-save-error says: a run whose weights are not on disk has not finished; and then `last` and
  // `best` alone are kept, unless --keep-checkpoints says how many. Before, with --on-save-error
  // continue, it is said aloud.
  Status save(const Plan& plan, Txn next, const RunNotes& notes);
  // The same, an error whatever --on-save-error says; `best` points to it.
  Status save_best(const Plan& plan, Txn next, const RunNotes& notes);

 private:
  Result<std::optional<checkpoint::Found>> load_newest(
      const checkpoint::Expectation& expected, std::span<const checkpoint::PartTarget> parts,
      bool first) const;
  Result<checkpoint::Found> load_path(const checkpoint::Expectation& expected,
                                      std::span<const checkpoint::PartTarget> parts,
                                      bool first) const;
  bool from_path() const;
  bool same_virtual_workers(const checkpoint::Found& found) const;
  static Status go_on_otherwise(Plan& plan, const checkpoint::Found& found);
  bool is_there(const Plan& plan, Txn next) const;
  // Of a state, beside its tensors, which the writer has.
  struct Copy {
    RunCursor cursor;
    std::uint64_t generation = 0;
    std::vector<std::string> texts;
    RunNotes notes;
  };
  void make_writer(const Plan& plan);
  Status take(const Plan& plan, Txn next, RunNotes notes, checkpoint::WhenBusy when_busy);
  Status told(const Plan& plan, Txn next, const Status& saved) const;
  Status publish(const Plan& plan, Txn next, const RunNotes& notes);
  void keep_the_last_alone(const Plan& plan, Txn next) const;
  void on_done(const Position& position, Txn txn, const Result<checkpoint::Published>& result);

  worker::Session& session_;
  TrainState& state_;
  const RunOptions& options_;
  const rundir::RunManifest& manifest_;
  const int run_lock_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::optional<Loaded> newest_;                // in the run directory, at this start
  std::optional<Copy> copy_;                    // that is not handed over yet
  std::atomic<std::uint64_t> awaited_{0};       // 1 + what is saved and waited for; 0: nothing yet
  std::unique_ptr<checkpoint::Writer> writer_;  // last: its thread uses the rest
};

}  // namespace lockstep::training
