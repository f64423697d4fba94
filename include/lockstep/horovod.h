// Horovod's names (horovod.torch) over Step and DistributedDataParallel, for programs and habits
// that come from there.
//
//   LOCKSTEP_ASSIGN(auto hvd, lockstep::horovod::init(context, options));
//   lockstep::SGD sgd(net->parameters(), {.lr = 1e-4 * hvd.size()});
//   LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
//   LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd));
//   lockstep::horovod::DistributedOptimizer optimizer(hvd, sgd, *net);
//   LOCKSTEP_TRY(hvd.step()->open(train_set));
//   for (;;) {
//     LOCKSTEP_ASSIGN(const bool more, hvd.step()->next());
//     if (!more) break;
//     LOCKSTEP_TRY(optimizer.step([&](lockstep::Share& share) {
//       return loss_of(share.batch());  // hvd.rank(): which virtual worker this is
//     }));
//   }
//
// That is a run, exact and elastic: what is killed, added or taken away changes no bit. size() is
// V, the number of virtual workers, and in the closure rank() is the one that it computes; so a
// rate or a message that follows from them does not change with the workers. Outside of it rank()
// is the worker's, as of its start.
//
// Horovod's own form, backward and then step(), needs a worker for each rank, and whoever dies ends
// it for all (the launcher's --max-restarts starts them again):
//
//   using lockstep::ProcessGroupOptions;
//   LOCKSTEP_ASSIGN(auto hvd,
//                   lockstep::horovod::init(context, ProcessGroupOptions{.output = "runs/1"}));
//   LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
//   LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd));
//   lockstep::horovod::DistributedOptimizer optimizer(hvd, sgd, *net);
//   // Then, for each batch of this rank's own:
//   optimizer.zero_grad();
//   F::cross_entropy(net(batch.inputs), batch.targets).backward();  // grad(): the mean over ranks
//   LOCKSTEP_TRY(optimizer.step());
//
// There every backward averages (backward_passes_per_step is 1; gradients that are not zeroed go on
// from the last mean), and buffers stay each rank's own, as in Horovod.
//
// Errors: kUsage for a call of the other form; those of Step, of ProcessGroup. The constructor of
// DistributedOptimizer and, in Horovod's own form, backward() throw DistributedError:
// catch_errors(). Threads: one. Ownership: context, module and optimizer outlive these objects,
// which are destroyed in the reverse order.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/context.h"
#include "lockstep/ddp.h"
#include "lockstep/optim.h"
#include "lockstep/process_group.h"
#include "lockstep/state.h"
#include "lockstep/status.h"
#include "lockstep/step.h"

namespace lockstep::horovod {

class Horovod {
 public:
  Horovod(Horovod&&) noexcept;
  ~Horovod();

  int rank() const;
  int size() const;
  int local_rank() const;  // the worker's on its host, as of its start

  // Own form: parameters and buffers become those of rank `root_rank`. In a run: the module takes
  // part in its state, which newcomers copy and checkpoints hold; all workers must have made it
  // alike (open() tells if not), so any root_rank will do. Before open().
  Status broadcast_parameters(torch::nn::Module& module, int root_rank = 0);
  // The same for what the optimizer keeps, rates included.
  Status broadcast_optimizer_state(Optimizer& optimizer, int root_rank = 0);

  Step* step();           // of a run; in the other form nullptr
  TrainState* state();    // the same: for a scheduler, a scaler, tensors of one's own
  ProcessGroup* group();  // of Horovod's own form; in a run nullptr

 private:
  friend class DistributedOptimizer;
  friend Result<Horovod> init(Context& context, RunOptions options);
  friend Result<Horovod> init(Context& context, ProcessGroupOptions options);
  struct Impl;
  explicit Horovod(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Once per program, and beside no other run or group.
Result<Horovod> init(Context& context, RunOptions options);
Result<Horovod> init(Context& context, ProcessGroupOptions options);

class DistributedOptimizer {
 public:
  // `module`: the one whose parameters the optimizer has, already given to broadcast_parameters().
  DistributedOptimizer(Horovod& horovod, Optimizer& optimizer, torch::nn::Module& module);
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  void zero_grad() { optimizer_.zero_grad(); }
  // Step::run(): a whole step of a run.
  Status step(const Step::Closure& closure);
  // An update by the mean that backward has left in grad().
  Status step();

 private:
  Horovod::Impl& horovod_;
  Optimizer& optimizer_;
  std::optional<DdpEngine> engine_;  // in Horovod's own form
};

}  // namespace lockstep::horovod
