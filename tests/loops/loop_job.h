// What hooks_worker and rows_worker share: CASE and where its run goes, options of a short run, and
// updates that are left out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "lockstep/step.h"
#include "support/until.h"

namespace loops {

using Data = std::shared_ptr<const lockstep::data::Dataset>;

struct Job {
  lockstep::Context& context;
  std::string name, output;
  int virtual_workers = 4;
  std::int64_t epochs = 0;  // 0: some steps
  bool is(const char* wanted) const { return name == wanted; }
  bool has(const char* word) const { return name.find(word) != name.npos; }

  lockstep::RunOptions options() const {
    lockstep::RunOptions options;
    options.output = output;
    options.epochs = epochs > 0 ? epochs : 3;
    options.virtual_workers = virtual_workers;
    options.checkpoint_every = lockstep::Duration::steps(4);
    if (name.ends_with("updates")) options.updates_per_step = 2;
    if (name.ends_with("nan-skip")) options.on_nan = lockstep::OnNan::kSkip;
    return options;
  }
  // Until one is on disk.
  void wait_for_checkpoint() const {
    lockstep::test::until([&] { return std::filesystem::exists(output + "/checkpoints/last"); });
  }
  // A step's updates, all of them by this loss.
  lockstep::Status run(lockstep::Step& step, lockstep::Optimizer& optimizer,
                       const lockstep::Step::Closure& loss) const {
    if (name.ends_with("updates")) return step.run({{optimizer, loss}, {optimizer, loss}});
    return step.run(optimizer, loss);
  }
  // `loss`, but in the updates that CASE leaves out.
  at::Tensor taken(const lockstep::Share& share, const at::Tensor& loss) const {
    if (is("left-out") && share.global_step() % 4 == 1) return {};
    if (name.ends_with("nan-skip") && share.global_step() == 6 && share.virtual_worker() == 2)
      return loss * std::numeric_limits<double>::quiet_NaN();
    return loss;
  }
};

}  // namespace loops
