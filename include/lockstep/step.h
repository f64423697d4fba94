// One's own loop, exact and elastic: each step's loss is given to the library as a closure.
//
//   lockstep::TrainState state;  // all that the next step depends on
//   LOCKSTEP_TRY(state.add("model", *model));
//   LOCKSTEP_TRY(state.add("optimizer", optimizer));
//   lockstep::Step step(context, state, options);
//   LOCKSTEP_TRY(step.open(train_set));  // joins the run, resumes, or takes a live peer's state
//   for (;;) {
//     LOCKSTEP_ASSIGN(const bool more, step.next());
//     if (!more) break;
//     optimizer.set_lr(schedule(step.global_step()));
//     LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
//       return loss_of(share.batch());
//     }));
//   }
//
// A step may have several updates from the same batch, in turn, as a GAN's has: with
// RunOptions::updates_per_step = 2:
//
//   LOCKSTEP_TRY(step.run({{d_optimizer, d_loss}, {g_optimizer, g_loss}}));
//
// And an update may be of several optimizers, which one backward serves:
//
//   LOCKSTEP_TRY(step.run({&means_optimizer, &colors_optimizer}, loss));
//
// What every worker does at an update, say a moving average of the weights (in the state, too), is
// registered before open(), and runs once an update, also in who comes in with it:
//
//   step.on_update([&](const lockstep::UpdateEnd&) { average.lerp_(net->weight, 0.01); });
//
// What the loop does between next() and run() counts once a step: checkpoints are of before it, and
// a newcomer, whose first step others have begun, has it in its copy of the state. It must be the
// same in all workers: a function of global_step() and the state and of nothing else, neither of
// the rank nor of how often the loop has gone round. A replacement comes in at the loop's top, at
// any step: so a loop with two optimizers takes one of them by global_step() % 2, and not in turn.
// run() finds optimizers, rates, frozen parameters and, now and then, states that differ (kUsage,
// in all workers).
//
// requires_grad_() there freezes and unfreezes parameters that an optimizer of the state has. A
// frozen one gets no gradient, and its optimizer leaves it alone; newcomers, checkpoints and a
// resume have the flags. They are read when run() begins (and before each of its updates, as a hook
// has left them); what a closure sets is undone behind its share. Optimizer::reset_state() begins a
// phase anew.
//
// The closure runs once for each virtual worker that this worker has in the step (with
// accumulation_steps once for each of its batches), and again for those it adopts when others die.
// It must depend on nothing but the state and the share: not on the rank, a data loader around
// run(), a counter, the clock, or a generator of its own; and it must not write to the state, what
// it carries and the model's buffers apart (kUsage, which names the tensor). In a new run's first
// step the closure of each share runs a second time, in another worker where there is one, and must
// come to the same bits (RunOptions::rehearse). Backward, clipping (RunOptions::clip_grad_norm),
// reduction and update are run()'s: in the closure backward(), zero_grad(), clip_grad_norm_() and
// the optimizer's step() are errors. How long the loop's own code may take: "Time limits" in
// docs/guide/errors.md (30 min from the launcher's start to the end of open(); later as long as no
// other worker waits).
// Threads: one. Ownership: refers to context and state, which outlive it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/context.h"
#include "lockstep/data.h"
#include "lockstep/run_options.h"
#include "lockstep/state.h"
#include "lockstep/sums.h"

namespace lockstep {

namespace training {  // not `train`: programs have a function of that name
class CarriedRows;
class Run;
class ShareSums;
class Shares;
}  // namespace training

// One virtual worker's part of a step.
class Share {
 public:
  std::int64_t virtual_worker() const { return virtual_worker_; }
  std::int64_t epoch() const { return epoch_; }              // from 0
  std::int64_t step() const { return step_; }                // in the epoch, from 0
  std::int64_t global_step() const { return global_step_; }  // of the run, from 0
  // What the data plan gives this share. In a run without data it throws, which ends the run
  // (kUsage).
  const data::Batch& batch() const {
    asked_ = true;
    if (batch_ == nullptr) no_batch();
    return *batch_;
  }
  // With RunOptions::accumulation_steps the closure runs for each batch of the share, in order.
  std::int64_t micro_batch() const { return micro_batch_; }  // which of them, from 0
  std::int64_t micro_batches() const { return micro_batches_; }
  // Which of the step's updates this is, from 0. All are of the same batch().
  std::int64_t update() const { return update_; }
  // A number of this batch's own, a function of the run's seed, the step, the virtual worker and
  // micro_batch(), the same in all updates of the step. PyTorch's default generator is seeded
  // before each call of the closure, for each update otherwise: at::manual_seed(share.seed()) makes
  // a GAN's second closure draw the noise of the first.
  std::uint64_t seed() const { return seed_; }

  // What this virtual worker carries from step to step (TrainState::add_carried()): its row, as its
  // last carry() has set it, in the update before or in this one (with accumulation_steps for an
  // earlier batch of it, too). A copy without a graph: what is written to it is not carried.
  at::Tensor carried(const std::string& name) const;
  // Sets it, of the row's shape and dtype, to a copy of `next` without its graph; once more in the
  // same share, and the last one counts. It takes effect with the update: one that is left out
  // (on_nan, or no share takes part) leaves the rows as they were, one that a GradScaler leaves out
  // does not. A share that carries nothing keeps its row. Both are calls of the closure's own
  // thread, while it runs; errors (kUsage) are thrown, as a closure has no other way.
  void carry(const std::string& name, const at::Tensor& next);

  // Adds to a figure of the program's own, as a mean over `count` things: rewards of episodes,
  // right answers, a divergence. Over all shares it is in StepResult::sums, in metrics.jsonl (the
  // mean under its name, sum and count in "sums") and, of a Trainer's epoch, in EpochEnd::sums;
  // exact whoever dies: a share that is computed again begins from nothing. Several calls in a
  // share, for its other batches too, add up. A name is of letters, digits and "_./-", begins with
  // a letter or "_", has at most 31 bytes, and is none that metrics.jsonl has ("loss", "step", …);
  // at most 16 of them in an update, of a Trainer in an epoch. A sum that is infinite or NaN is
  // kept, and null in metrics.jsonl. Errors (kUsage): thrown, also for a count below 0.
  void add(const std::string& name, double sum, std::int64_t count = 1);

  // Ends the run after this step, in all workers, as --max-steps would: the word of one share is
  // enough, and counts once the step is committed. The final weights are as exact as what it is
  // said for: a function of the state and the share (a loss below a goal) and they are the same
  // whatever dies; the time of day, and they are not.
  void end_run() { ends_ = true; }

 private:
  friend class training::Shares;
  friend class Trainer;
  [[noreturn]] static void no_batch();
  std::int64_t virtual_worker_ = 0, epoch_ = 0, step_ = 0, global_step_ = 0;
  std::int64_t micro_batch_ = 0, micro_batches_ = 1, update_ = 0;
  std::uint64_t seed_ = 0;
  const data::Batch* batch_ = nullptr;
  void check_call(const char* call, const char* elsewhere) const;
  training::CarriedRows& rows(const char* call) const;
  training::CarriedRows* rows_ = nullptr;
  training::ShareSums* sums_ = nullptr;
  std::uint64_t call_ = 0;  // of the closure, to which these are of use
  bool ends_ = false;
  mutable bool asked_ = false;                                 // for its batch
  double correct_ = std::numeric_limits<double>::quiet_NaN();  // right answers; see Trainer::loss()
};

// Those that one update is of: one, or several in order.
class Optimizers {
 public:
  Optimizers(Optimizer& one) : list_{&one} {}  // NOLINT(google-explicit-constructor)
  Optimizers(std::initializer_list<Optimizer*> several) : list_(several) {}
  Optimizers(std::vector<Optimizer*> several)  // NOLINT(google-explicit-constructor)
      : list_(std::move(several)) {}
  const std::vector<Optimizer*>& list() const { return list_; }

 private:
  std::vector<Optimizer*> list_;
};

// Why an update changed no parameter.
enum class LeftOut {
  kNo,         // it was made
  kNotFinite,  // RunOptions::on_nan, with OnNan::kSkip
  kNoShare,    // none took part
  kScaler,     // the GradScaler, as gradients overflowed
};

// What an update was; the same in all workers, whoever computed or inherited a share.
struct UpdateResult {
  // Before the update, as lines and metrics.jsonl have them: virtual worker 0's (of those that take
  // part the first's), and the mean over all samples. NaN where no share took part.
  double loss = 0, loss_mean = 0;
  // The 2-norm of all its gradients together, unscaled, before clipping. nullopt: not computed, as
  // there is neither RunOptions::clip_grad_norm nor RunOptions::grad_norm, or the update was left
  // out before.
  std::optional<double> grad_norm = {};
  LeftOut left_out = LeftOut::kNo;
  Sums sums = {};  // what shares have added (Share::add()), also where it is left out
  bool made() const { return left_out == LeftOut::kNo; }
};

// What a step was, from Step::run(); the same in all workers.
struct StepResult {
  std::int64_t epoch = 0, step = 0;   // from 0, the step within its epoch
  std::int64_t global_step = 0;       // of the run, from 0
  std::vector<UpdateResult> updates;  // in order; at least one
  Sums sums = {};                     // of all of them
  // The first update's, which is what lines and reports call the step's.
  double loss() const { return updates.front().loss; }
  double loss_mean() const { return updates.front().loss_mean; }
  std::optional<double> grad_norm() const { return updates.front().grad_norm; }
  bool left_out() const;  // all its updates were: it changed no parameter
};

// An update that is being committed, as on_update() has it; the same in all workers.
class UpdateEnd {
 public:
  std::int64_t epoch = 0, step = 0;  // from 0, the step within its epoch
  std::int64_t global_step = 0;      // of the run, from 0
  std::int64_t update = 0;           // of the step, from 0
  // False: the GradScaler has left it out, as gradients overflowed; no optimizer has stepped.
  bool stepped = true;
  UpdateResult result = {};
  // As Share::end_run(): the run ends after this step, with its later updates, in all workers.
  void end_run() { ends_ = true; }
  bool ends_run() const { return ends_; }

 private:
  bool ends_ = false;
};

class Step {
 public:
  // The mean loss of the share's batch, a scalar with a graph. An undefined tensor: the share takes
  // no part in this update, and counts as zeros in the mean over virtual workers; one in which none
  // takes part is left out.
  using Closure = std::function<at::Tensor(Share&)>;
  struct Update {
    Optimizers optimizers;
    Closure loss;
  };

  Step(Context& context, TrainState& state, RunOptions options);
  ~Step();

  // Errors as Trainer::fit().
  Status open(std::shared_ptr<const data::Dataset> train_set);
  // Without data, as for reinforcement learning: one epoch without end, which RunOptions::max_steps
  // (a later start may have more), a time limit or Share::end_run() ends. In means each share
  // counts 1. There is no Share::batch(), and options that speak of batches or epochs are kUsage.
  Status open();
  // Waits for the next step's members. False: the run is complete and its result printed and
  // recorded. Each step that it announces must be run(). Seeds PyTorch's default generator, by
  // seed and step: what is drawn before run() is the same in all workers. Errors: kLeft,
  // kResumable, see Trainer::fit(); kResumable may come from run() instead. In a closure, a hook or
  // an optimizer's step() next() and run() throw, which ends the run (kUsage).
  Result<bool> next();
  // `hook` is called in every worker, once at each update, while it is committed, without gradients
  // (NoGradGuard): after the optimizers' step(), with the step's buffers and carried rows in the
  // state, and before gradients are let go. So grad() is the mean over virtual workers, as the
  // optimizers had it (unscaled, clipped), a copy of this worker's own, which may be written to,
  // and undefined for parameters of other optimizers. With MasterWeights that is so of the masters:
  // a half weight's grad() is neither unscaled nor clipped, and what is written to a half weight is
  // written over by its master. What a hook writes to the state lasts; written to anything else it
  // must not matter, as a newcomer has the state alone. It depends on the state, grad() and its
  // argument, and on nothing else, no variable of the loop either: a newcomer runs it for its first
  // update within open(), before its loop has set any. What it draws from PyTorch's default
  // generator is the same everywhere. A hook costs a copy of the gradients at each update.
  // An update that is left out (OnNan::kSkip, or no share takes part) does not call it; one that
  // a GradScaler leaves out does, as a loop of PyTorch's would. What it throws ends the run, as in
  // the loop's own code, with "step N: on_update(): ". Several are called in the order given.
  // UpdateEnd::end_run() ends the run with this step.
  // Before open(): later is kUsage, from next() or run().
  void on_update(std::function<void(UpdateEnd&)> hook);
  // See Trainer::on_finished(). Before the last next(), which calls it.
  void on_finished(std::function<Status()> call);
  // For schedules; after open(). The run ends after `epochs` or `max_steps`, whichever comes first,
  // by a time limit, which total_steps() does not count, or by end_run() of a Share or an
  // UpdateEnd; a loop that just returns before next() says false is a death. A schedule over
  // total_steps() is another one with another `epochs` or `max_steps`: such a run is done again
  // with those that it had.
  // Without data an epoch has 2^45 batches, and so has a run without max_steps.
  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const;
  // Of the step that next() has announced, also after its run(); from 0. Before the first next():
  // of the step that is to come.
  std::int64_t epoch() const;
  std::int64_t global_step() const;
  // Of the live members exactly one is the first, whatever rank it was started with: what a loop
  // does once, a line or an evaluation (under at::NoGradGuard), is its to do. Between next() and
  // run(), with the weights of the epoch before:
  //   if (step.is_first() && step.global_step() % step.steps_per_epoch() == 0) evaluate(*model);
  // When it dies another one is, and in that very step there may have been none, or two: what must
  // be done whoever dies belongs to a Trainer, whose epochs' ends are done again. After next().
  bool is_first() const;
  // A whole step: shares, sum, update of these optimizers (of the state's, the same in all workers;
  // the others' parameters are not asked for and stay as they are), commit. With several,
  // RunOptions::clip_grad_norm is of all their parameters, in that order, and so are their step()s.
  // Buffers of the model are those that virtual worker 0's share has left, before the optimizers'
  // step(): what an optimizer of the program's own writes to one there, and what the loop writes
  // outside of the closure, lasts. PyTorch's default generator is seeded before step().
  // kUsage, which names it: a tensor of the state that has other memory, shape or dtype than at
  // open() (set_data(), set_(), resize_()); one that was unfrozen and is of no optimizer.
  // A worker that comes in with a step has no result of it: what a loop does with results must not
  // change the train state, unless it is in every worker a function of this step's alone. Nor has
  // one that is taken out of its last step: kLeft.
  Result<StepResult> run(const Optimizers& optimizers, const Closure& closure);
  // A whole step of RunOptions::updates_per_step updates, one after the other, each from what the
  // one before has left: they see the same batches, and whoever comes, goes, stops or saves does so
  // between steps. Another number of them is kUsage.
  Result<StepResult> run(const std::vector<Update>& updates);

 private:
  std::unique_ptr<training::Run> run_;
};

}  // namespace lockstep
