// rows_worker CASE RUN_DIR [V [EPOCHS]]: a loop of Step's (or a Trainer) whose shares carry rows to
// their next step, right or wrong in the way that CASE says.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "loop_job.h"
#include "support/held_steps.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;
using lockstep::Step;
using loops::Data;
using loops::Job;

struct Parts {
  torch::nn::Linear net{3, 2};
  lockstep::SGD optimizer{net->parameters(), {.lr = 0.05, .momentum = 0.5}};
  lockstep::GradScaler scaler{{.init_scale = 2e38, .growth_interval = 1000}};
  lockstep::TrainState state;
  std::optional<Share> kept;  // of an earlier call of the closure
};

// What is wrong in which way.
void misuse(const Job& job, Parts& parts, Share& share) {
  const at::Tensor h = share.carried("h");
  if (job.is("shape")) share.carry("h", at::zeros({2, 1}));
  if (job.is("dtype")) share.carry("h", h.to(at::kDouble));
  if (job.is("device")) share.carry("h", at::zeros({2}, at::kMeta));
  if (job.is("undefined")) share.carry("h", {});
  if (job.is("unknown")) share.carry("hh", h);
  if (job.is("unknown-read")) share.carried("c");
  if (job.is("kept") && parts.kept) parts.kept->carry("h", h);
  if (job.is("kept")) parts.kept = share;
}

at::Tensor loss_of(const Job& job, Parts& parts, Share& share) {
  const std::int64_t step = share.global_step(), v = share.virtual_worker();
  misuse(job, parts, share);
  if (job.has("slow") && step == 7) job.wait_for_checkpoint();
  static std::set<std::int64_t> seen;  // steps, in all workers alike; what should be in the state
  seen.insert(step);
  at::Tensor h = share.carried("h");
  if (job.has("outside")) h = h + 0.01 * static_cast<double>(seen.size());
  const at::Tensor input = at::cat({share.batch().inputs.mean(0), h});
  const at::Tensor next = at::tanh(parts.net(input));
  h.fill_(100);  // a copy: of no effect
  if ((step + v) % 3 != 0) {
    share.carry("h", at::full({2}, 77.0));
    share.carry("h", next);  // the last one counts, and it has a graph
  }
  share.carry("count", share.carried("count") + 1);
  share.carry("count", share.carried("count") + 1);
  if (job.is("by-rank")) share.carry("h", h + double(job.context.rank()));
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const double by = job.has("by-start") && restarts != nullptr ? 1 + std::atoi(restarts) : 1;
  return job.taken(share, (next - share.batch().targets.mean(0)).pow(2).mean() * by);
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options = job.options();
  options.batch_size = 2;
  options.shuffle = lockstep::data::Shuffle::kRows;
  options.log_every = lockstep::Duration::steps(5);
  if (job.epochs == 0) options.max_steps = 24;
  if (job.is("accumulates")) options.accumulation_steps = 2;
  if (job.has("unrehearsed")) options.rehearse = 0;
  if (job.has("never")) {
    options.resume = "never";
    options.checkpoint_every = lockstep::Duration::steps(100);
  }
  if (job.has("may-vary")) options.deterministic = lockstep::Deterministic::kOff;
  if (job.is("another")) options.new_virtual_workers = true;
  return options;
}

Status add_rows(const Job& job, lockstep::TrainState& state) {
  LOCKSTEP_TRY(state.add_carried("h", at::zeros({2, 3}).select(1, 1)));
  LOCKSTEP_TRY(state.add_carried("count", at::zeros({}, at::kLong)));
  if (job.is("librarys-name")) return state.add_carried("lockstep.step", at::zeros({1}));
  if (job.is("twice")) return state.add_carried("h", at::zeros({1}));
  if (job.is("parts-name")) return state.add_carried("model", at::zeros({1}));
  if (job.is("same-name")) return state.add("carried", {{"h", at::zeros({1})}});
  if (job.is("no-row")) return state.add_carried("x", {});
  if (job.is("early")) return state.carried("h").ok() ? Status() : state.carried("h").error();
  return {};
}

Status train(const Job& job, const Data& set) {
  Parts parts;
  lockstep::TrainState& state = parts.state;
  LOCKSTEP_TRY(state.add("model", *parts.net));
  LOCKSTEP_TRY(state.add("optimizer", parts.optimizer));
  if (job.is("scaler")) LOCKSTEP_TRY(state.add("scaler", parts.scaler));
  LOCKSTEP_TRY(add_rows(job, state));
  Step step(job.context, state, options_of(job));
  LOCKSTEP_TRY(step.open(set));
  if (job.is("late")) return state.add_carried("late", at::zeros({1}));
  const auto loss = [&](Share& share) { return loss_of(job, parts, share); };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    lockstep::test::hold_step(job.output, step.global_step());
    if (job.has("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(120));
    LOCKSTEP_ASSIGN(const at::Tensor h, state.carried("h"));
    if (job.is("resets") && step.global_step() % step.steps_per_epoch() == 0) h.zero_();
    LOCKSTEP_TRY(job.run(step, parts.optimizer, loss));
  }
  LOCKSTEP_ASSIGN(const at::Tensor counts, state.carried("count"));
  if (step.is_first())
    std::printf("counts %ld state %s\n", long{counts.sum().item<std::int64_t>()},
                state.sha256().c_str());
  return {};
}

Status trainer(const Job& job, const Data& set) {
  Parts parts;
  lockstep::Trainer trainer(job.context, *parts.net, parts.optimizer, options_of(job));
  trainer.add_carried("h", at::zeros({2}));
  trainer.add_carried(job.is("trainer-name") ? "optimizer" : "count", at::zeros({}, at::kLong));
  trainer.loss([&](Share& share) { return loss_of(job, parts, share); });
  return trainer.fit(set);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) -> Status {
    LOCKSTEP_ASSIGN(const auto set,
                    lockstep::data::tensor_dataset(at::randn({96, 1}), at::randn({96, 2})));
    const Job job{context, argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 4,
                  argc > 4 ? std::atol(argv[4]) : 0};
    return job.name.starts_with("trainer") ? trainer(job, set) : train(job, set);
  });
}
