// Training steps a second with the data in memory: the counterpart of the peers' step_rate.py.
// Prints one JSON object.
//
//   lockstep run ... step_rate MODEL WARM_UP STEPS V RUN_DIR   through Lockstep, V virtual workers
//   step_rate MODEL WARM_UP STEPS 2 none                       two processes, the same in plain
//                                                              libtorch, that do not communicate
//
// `loss`: of the last step, virtual worker 0's (side by side: the first process's). Runs of fewer
// than 100 steps are not rehearsed: steps 1, 2, 4, … are computed twice, which in longer runs is
// little.
#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/nn/functional/loss.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/deadline.h"
#include "lockstep/amp.h"
#include "lockstep/context.h"
#include "lockstep/step.h"
#include "programs/models.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kPool = 8;  // batches, drawn once

struct Work {
  std::string name, run_dir;
  std::int64_t warm_up = 0, steps = 0;
  int virtual_workers = 1;
};

// The images are in the pools, on both sides: nothing is fetched. Ids are drawn, told and recorded
// as for any data set.
class NoData final : public data::Dataset {
 public:
  explicit NoData(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Result<data::Batch> get(std::span<const std::int64_t> ids, const data::Pass&) const override {
    return data::Batch{{}, {}, {ids.begin(), ids.end()}};
  }
  std::string fingerprint() const override { return "none"; }

 private:
  std::int64_t size_;
};

std::vector<data::Batch> make_pool(const Model& model, int rank) {
  at::manual_seed(100 + static_cast<std::uint64_t>(rank));
  std::vector<std::int64_t> shape{model.batch_size};
  shape.insert(shape.end(), model.shape.begin(), model.shape.end());
  std::vector<data::Batch> pool(kPool);
  for (data::Batch& batch : pool) {
    batch.inputs = at::randn(shape).contiguous(model.format);
    batch.targets = at::randint(10, {model.batch_size}, at::kLong);
  }
  return pool;
}

at::Tensor loss_of(Model& model, const data::Batch& batch) {
  const Autocast autocast(at::kCPU, at::kBFloat16, model.bf16);
  return torch::nn::functional::cross_entropy(model.forward(batch.inputs), batch.targets);
}

std::size_t gradient_bytes(const Model& model) {
  std::size_t bytes = 0;
  for (const at::Tensor& parameter : model.module->parameters()) bytes += parameter.nbytes();
  return bytes;
}

void print_rate(const Work& work, const Model& model, std::uint64_t begin_ns, double loss) {
  const double seconds = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
  std::printf(
      "{\"model\": \"%s\", \"images_per_s_rank\": %.2f, \"steps_per_s\": %.3f, \"loss\": %.9g, "
      "\"gradient_bytes\": %zu}\n",
      work.name.c_str(), static_cast<double>(model.batch_size * work.steps) / seconds,
      static_cast<double>(work.steps) / seconds, loss, gradient_bytes(model));
  std::fflush(stdout);
}

// One of `processes` that do not communicate; they meet once, before the steps that count.
void alone(Model& model, const Work& work, int process, std::atomic<int>& arrived) {
  const std::vector<data::Batch> pool = make_pool(model, process);
  std::uint64_t begin = 0;
  at::Tensor loss;
  for (std::int64_t i = 0; i < work.warm_up + work.steps; ++i) {
    if (i == work.warm_up) {
      ++arrived;
      while (arrived < work.virtual_workers) sched_yield();
      begin = monotonic_ns();
    }
    loss = loss_of(model, pool[static_cast<std::size_t>(i % kPool)]);
    model.optimizer->zero_grad();
    loss.backward();
    model.optimizer->step();
  }
  if (process == 0) print_rate(work, model, begin, loss.item<double>());
}

Model model_of(const Work& work) {
  at::manual_seed(0);
  return make_model(work.name);
}

int side_by_side(const Work& work) {
  void* memory = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* arrived = new (memory) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int process = 0; process < work.virtual_workers; ++process) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // As the launcher's workers: some schedulers share CPUs out among sessions.
    setsid();
    // For its threads and its allocator's settings: the two sides differ in communication alone.
    const auto context = init({.threads = 1});
    if (!context.ok()) exit_with(context.error());
    Model model = model_of(work);
    alone(model, work, process, *arrived);
    _exit(0);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good ? 0 : 1;
}

Status together(Context& context, Model& model, const Work& work) {
  std::vector<std::vector<data::Batch>> pools;
  for (int v = 0; v < work.virtual_workers; ++v) pools.push_back(make_pool(model, v));
  RunOptions options;
  options.name = "step_rate";
  options.output = work.run_dir;
  options.epochs = 1;
  options.max_steps = work.warm_up + work.steps;
  options.batch_size = model.batch_size;
  options.virtual_workers = work.virtual_workers;
  options.resume = "never";
  options.checkpoint_every = {};
  options.log_every = {};
  if (options.max_steps < 100) options.rehearse = 0;
  TrainState state;
  LOCKSTEP_TRY(state.add("model", *model.module));
  LOCKSTEP_TRY(state.add("optimizer", *model.optimizer));
  Step step(context, state, options);
  LOCKSTEP_TRY(step.open(
      std::make_shared<NoData>(options.max_steps * work.virtual_workers * model.batch_size)));
  std::uint64_t begin = 0;
  double loss = 0;
  std::int64_t i = 0;
  for (;; ++i) {
    if (i == work.warm_up) begin = monotonic_ns();
    if (i == options.max_steps && context.rank() == 0) print_rate(work, model, begin, loss);
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(*model.optimizer, [&](Share& share) {
      const auto& pool = pools[static_cast<std::size_t>(share.virtual_worker())];
      const at::Tensor value =
          loss_of(model, pool[static_cast<std::size_t>(share.global_step() % kPool)]);
      if (share.virtual_worker() == 0 && share.global_step() + 1 == options.max_steps)
        loss = value.item<double>();
      return value;
    }));
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  const bench::Work work = argc == 6 ? bench::Work{argv[1], argv[5], std::atoll(argv[2]),
                                                   std::atoll(argv[3]), std::atoi(argv[4])}
                                     : bench::Work{};
  if (work.steps < 1 || work.warm_up < 0 || work.virtual_workers < 1)
    exit_with(Error{ErrorKind::kUsage, "usage: step_rate MODEL WARM_UP STEPS V RUN_DIR|none"});
  if (work.run_dir == "none") _exit(bench::side_by_side(work));
  auto context = init({.threads = 1});
  if (!context.ok()) exit_with(context.error());
  bench::Model model = bench::model_of(work);
  exit_with(*context, bench::together(*context, model, work));
}
