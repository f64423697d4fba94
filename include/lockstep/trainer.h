// The trainer: epochs over a data set, exact at any number of workers, surviving any of them.
//
//   lockstep::Trainer trainer(context, *model, optimizer, options);
//   trainer.loss([&](const lockstep::data::Batch& batch) {
//     return F::cross_entropy(model->forward(batch.inputs), batch.targets);
//   });
//   trainer.evaluation([&](const lockstep::data::Batch& batch) {
//     return lockstep::cross_entropy_score(model->forward(batch.inputs), batch.targets);
//   });
//   const lockstep::Status status = trainer.fit(train_set, test_set);
//
// What a step computes is stated in docs/design/arithmetic.md, how it survives in
// docs/design/protocol.md, how long the program's own code may take in docs/guide/errors.md ("Time
// limits": 30 min from the launcher's start to the first step, then as long as nobody waits).
// Threads: one. Ownership: refers to context, model and optimizer, which outlive it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/context.h"
#include "lockstep/data.h"
#include "lockstep/lr_scheduler.h"
#include "lockstep/optim.h"
#include "lockstep/run_options.h"
#include "lockstep/score.h"
#include "lockstep/state.h"
#include "lockstep/status.h"
#include "lockstep/sums.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

class Share;      // lockstep/step.h
class UpdateEnd;  // the same

// Of one share's batch in training, where the right answers are counted, too.
struct LossAndCorrect {
  at::Tensor loss;  // see Trainer::Loss
  double correct = 0;
};

// When a schedule steps.
enum class Per { kEpoch, kUpdate };

// What the evaluated samples are to a run: by which name its records and reports have the figures.
enum class EvaluatedOn { kTestSet, kValidationSet };

// See Trainer::keep_history().
struct EpochFigures {
  double train_loss = 0, loss = 0;  // as EpochEnd has them
  double run_seconds = 0;           // of the run, at the epoch's end
};

// What is known at an epoch's end: the same in all workers, whoever computed it.
struct EpochEnd {
  std::int64_t epoch = 0;        // from 0
  std::int64_t epochs = 0;       // of the run
  std::int64_t global_step = 0;  // optimizer steps so far
  double train_loss = 0;         // mean over the epoch's samples, each before its step's update
  std::vector<double> train_losses = {};  // the same by virtual worker, over its own samples
  double train_accuracy = 0;              // over the same samples; NaN where none are counted
  double lr = 0;                          // of the first group, in the epoch's last update
  // Of the evaluation: NaN and 0 without one (a test set, --evaluate-every); correct and accuracy
  // too where Score has none.
  double loss = 0;
  double correct = 0;
  double accuracy = 0;  // correct / count
  std::int64_t count = 0;
  // Samples that the data sets left out as damaged, as often as they were asked for: in the epoch's
  // training, where others stood in for them (Loader), and in the evaluation.
  std::int64_t train_replaced = 0, left_out = 0;
  // See Trainer::best(): NaN and -1 before the first.
  double best = 0;
  double best_before = 0;  // before this epoch
  std::int64_t best_epoch = 0;
  // For lines alone; 0 and false elsewhere. How long training and evaluation took, or what of them
  // came after the run's last start: another number each time.
  double seconds = 0;
  bool written = false;  // by exports()
  // The time limit ends the run here; and this epoch is not whole: its sums are of the steps so
  // far, no schedule steps, and a run that goes on after all knows nothing of it.
  bool out_of_time = false, broken = false;
  std::vector<EpochFigures> history = {};  // with keep_history(): of all epochs, this one last
  Sums sums = {};  // what the epoch's shares have added (Share::add()), but for updates that
                   // OnNan::kSkip leaves out; here too at most 16 names
  bool is_best() const { return best_epoch == epoch; }
};

// At each step, for lines of one's own.
struct StepEnd {
  std::int64_t epoch = 0, step = 0;  // from 0, the step within its epoch
  std::int64_t epochs = 0, steps_per_epoch = 0;
  std::int64_t global_step = 0;
  // Of log_every: this step is the last, the first of an interval; both false where it is none.
  bool ends_interval = false, begins_interval = false;
  // EpochEnd's train_loss and loss of the epoch before; NaN in the first.
  double last_train_loss = 0, last_loss = 0;
  // By virtual worker: its batch's mean loss, before the update, and its samples.
  std::vector<double> losses;
  std::vector<std::int64_t> samples;
  Sums sums = {};  // what its shares have added (Share::add())
};

// Where a run begins that begins elsewhere.
struct StartPoint {
  std::int64_t epoch = 0;  // from 0: the first to run
  // Trainer::best() so far, taken for that of the epoch before; NaN: not known.
  double best = std::numeric_limits<double>::quiet_NaN();
  // Of the epochs before, for keep_history(); the run's time goes on from the last one's.
  std::vector<EpochFigures> history = {};

  // Behind this epoch, the last that is finished.
  static StartPoint behind(std::int64_t epoch,
                           double best = std::numeric_limits<double>::quiet_NaN()) {
    return {epoch < std::numeric_limits<std::int64_t>::max() ? epoch + 1 : epoch, best};
  }
};

// What an epoch is the best by: the smallest loss of the evaluation, the greatest accuracy, the
// smallest loss in training.
enum class BestOf { kNothing, kLoss, kAccuracy, kTrainLoss };

// PyTorch's words: the smallest is the best, or the greatest.
enum class BestMode { kMin, kMax };

class Trainer {
 public:
  Trainer(Context& context, torch::nn::Module& model, Optimizer& optimizer, RunOptions options);
  ~Trainer();

  // Mean loss of a batch: a scalar with a graph. Called once per share, with accumulation_steps
  // once for each batch of it; backward (and the division by their number) is the trainer's.
  // It must depend on the model and the batch alone: not on the rank, the number of workers, the
  // time, or on how often it was called. Any worker may be given any share, and one that another
  // died over is computed again; a loss that knows its rank makes weights that depend on who
  // lives. Random layers are seeded by the library, from seed, step and virtual worker.
  using Loss = std::function<at::Tensor(const data::Batch&)>;
  using CountedLoss = std::function<LossAndCorrect(const data::Batch&)>;
  void loss(Loss loss);
  void loss(CountedLoss loss);
  // The same of the whole share: its batch(), numbers and seed(), what it carries and what it adds.
  using ShareLoss = std::function<at::Tensor(Share&)>;
  void loss(ShareLoss loss);
  // See TrainState::add(): what the training depends on beside the model, a second network or
  // tensors, as of a moving average (on_update()). A module's tensors are "NAME.…" in checkpoints
  // and count in the weights' hash. A parameter of it that nothing trains costs a gradient's memory
  // while it requires one: set_requires_grad(false). evaluation() leaves its mode as it is. Names
  // that are free: see add_carried(). Before fit(), whose errors these are (later: the run's); what
  // is added outlives the trainer.
  void add(const std::string& name, torch::nn::Module& module);
  void add(const std::string& name, const NamedTensors& tensors);
  template <Holder T>
  void add(const std::string& name, T& holder) {
    if (holder)
      add(name, *holder);
    else
      refuse(TrainState::holds_nothing(name));
  }
  // See TrainState::add_carried(); for a loss of the share. A name is not one of the trainer's
  // parts ("model", "optimizer", "epochs", "scheduler", "scaler", …). Errors: fit()'s.
  void add_carried(const std::string& name, const at::Tensor& row);
  // Called under NoGradGuard, with the whole model in evaluation mode; after it each module is in
  // its own mode and has its own buffers again. What it draws is seeded by (seed, step, batch).
  // Of some evaluations one batch is computed twice, and compared, by two workers where there are
  // two.
  // (Nothing else touches modes: a part that was put into eval() stays there while the rest
  // trains.)
  void evaluation(Evaluation evaluation, EvaluatedOn set = EvaluatedOn::kTestSet);

  // A schedule steps at each epoch's end, after what else is said and kept of it: ReduceLROnPlateau
  // by the evaluation's loss, where there is one (--evaluate-every); in a run without any, by the
  // training's. With mode kMax by the evaluation's accuracy: kUsage where none is counted.
  // Or at each update, behind the optimizer's step() and before on_update(): ReduceLROnPlateau by
  // the mean loss of the update's samples, and its patience counts updates (kUsage with mode kMax).
  // As in PyTorch's loop an update that a GradScaler leaves out counts; one left out for
  // OnNan::kSkip does not. Lines and records have the rate of the update itself.
  // Part of the state and of the manifest. Before fit(); `scheduler` outlives the trainer.
  void schedule(StepLR& scheduler, Per per = Per::kEpoch);
  void schedule(LambdaLR& scheduler, Per per = Per::kEpoch);
  void schedule(ReduceLROnPlateau& scheduler, Per per = Per::kEpoch);
  // The steps scale their losses by it, leave out those whose gradients overflow, and update it.
  // Part of the state and of the manifest. Before fit(); `scaler` outlives the trainer.
  void scaler(GradScaler& scaler);
  // EpochEnd::history is kept, in the state: some 50 bytes an epoch, 13,000 epochs at most
  // (kUsage from fit()). Before fit().
  void keep_history();
  // The model has half weights, and these are what is trained (lockstep/amp.h): the optimizer has
  // MasterWeights::parameters(). Part of the state and of the manifest. Before fit(); `masters`
  // outlives the trainer.
  void master_weights(MasterWeights& masters);
  // See Step::on_update(): called in every worker at each update. Before fit().
  void on_update(std::function<void(UpdateEnd&)> hook);
  // What EpochEnd::is_best() means; kNothing until it is said. The best epoch's end has a
  // checkpoint that stays: checkpoints/best points to it, and --resume takes that as a PATH; none
  // with --checkpoint-every 0. Before fit(), which refuses (kUsage) kLoss and kAccuracy without a
  // test set, and kAccuracy where an evaluation leaves Score::correct alone.
  void best(BestOf best_of);
  // The same by the epoch's mean of what shares add by that name (Share::add(); a loss of the
  // Share): best("reward", BestMode::kMax). An epoch in which nothing was added, or whose mean is
  // NaN, is not the best; kUsage at the first one's end if nobody has added any by that name. Part
  // of the manifest. fit() refuses (kUsage) a name that Share::add() does, and a loss of the batch.
  void best(std::string name, BestMode mode);

  // What is printed for a step (by default a line at the end of each log_every), for an epoch's end
  // (by default the evaluation's line): whole lines, a function of the argument and of nothing
  // else, called in all workers and printed once. With the step's metrics, some 500 bytes (and
  // 140 for each name that shares add up), at most 4,608 bytes and 256 more for each virtual
  // worker, so that each may have a line; beyond that it is kUsage.
  void step_lines(std::function<std::string(const StepEnd&)> lines);
  void epoch_lines(std::function<std::string(const EpochEnd&)> lines);

  // After each epoch's end, in one worker, with the weights and the rates of the next epoch's
  // start, while the others wait: the place for the tutorials' files. True: something was written.
  // Then `lines` are printed, once, whether it was or not (EpochEnd::written). Called again if that
  // worker dies, and when a run goes on from a checkpoint before it: so it must write beside and
  // rename, as save_pt() does. Its limit: docs/guide/errors.md, "Time limits". An error is told,
  // and ends the run (kDisk) only with --on-save-error stop. Without, the last epoch's files are
  // tried once more at the run's end; if they, or older ones with nothing written since, are still
  // missing, fit() says so at its end (kDisk), and the same command tries again.
  void exports(std::function<Result<bool>(const EpochEnd&)> call,
               std::function<std::string(const EpochEnd&)> lines = nullptr);

  // Ends the run early, in all workers, after the epoch (and its files) of which it says true: a
  // function of the argument and of nothing else, as it is asked in every worker, newcomers too.
  // The run stays ended, also when the same command is given with more epochs. When three epochs in
  // a row were not the best (needs best(): without it best_epoch stays -1):
  //   trainer.stop_when([](const lockstep::EpochEnd& end) {
  //     return end.epoch - end.best_epoch >= 3;
  //   });
  // Or by a figure of the program's own (Share::add()): end.sums["reward"].mean() > 450.
  void stop_when(std::function<bool(const EpochEnd&)> call);

  // Where a new run begins: may bring weights from elsewhere (a snapshot.pt of Python's) into the
  // model and says at which epoch's start to go on, and with which best; nullopt: from the seed.
  // Called in every worker of the start, within its 30 min; not with --resume never or a path. What
  // is not in such a file, the optimizer's state and the schedules' above all, begins anew. Where a
  // run has begun so its manifest says ("start_epoch", "start_best", "initial_weights_sha256"):
  // killed before its first checkpoint, it begins from the same weights again, or is an error.
  void start_from(std::function<Result<std::optional<StartPoint>>()> call);
  // Called in rank 0 of each start of the group that goes on from a checkpoint or from
  // start_from(): `epoch` is the one about to run, from its step `step`.
  void on_resume(std::function<void(std::int64_t epoch, std::int64_t step)> call);

  // Called in one worker, with the final weights, after the final checkpoint and before the run
  // counts as finished: the place for an export. Once; again in another worker if that one dies
  // meanwhile, and when the same command is given for a finished run. The others wait for it. Given
  // again, the last one counts. On several nodes it is called in one worker of each, as each node
  // has files of its own; GROUP_RANK says which node it is, from 0.
  void on_finished(std::function<Status()> call);

  // Trains to the end, resumes or heals as the options say. Prints the tutorial's lines and, last,
  // `weights sha256 HEX`; on standard error, once, how many samples of the last epoch were damaged,
  // if any (ledger.jsonl and metrics.jsonl: "replaced", "left_out"). With a test set and an
  // evaluation, each epoch ends with an exact evaluation (RunOptions::evaluate_every).
  // Errors: kUsage (options; a loss that is not the same for whoever computes it, see
  // RunOptions::rehearse), kBadData (data, checkpoint of another run), kDisk, kUnavailable (the
  // launcher or the directory is not to be had), kAborted (the launcher counts this worker as
  // dead); kResumable: stopped by the launcher; kLeft: taken out by `lockstep scale` (exit_with()
  // ends quietly then). So what comes after a successful fit() sees the final weights, in every
  // worker that is there. Rank 0 of the start need not be among them: see on_finished(). A program
  // has one run: kUsage for a second fit().
  Status fit(std::shared_ptr<const data::Dataset> train,
             std::shared_ptr<const data::Dataset> test = nullptr);

 private:
  void refuse(Error error);  // by fit()
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
