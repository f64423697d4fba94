// updates_worker CASE RUN_DIR [EPOCHS]: a loop of Step's whose steps have several updates, right or
// wrong in the way that CASE says.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "support/held_steps.h"
#include "support/until.h"
#include "worker_main.h"

namespace {

using lockstep::Optimizer;
using lockstep::Share;
using lockstep::Status;
using lockstep::Step;

constexpr std::int64_t kMany = 1200;  // more than the board has records for

struct Job {
  lockstep::Context& context;
  std::string name, output;
  std::int64_t epochs;  // of 12 steps
  bool is(const char* wanted) const { return name == wanted; }
};

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& inputs) {
    return last(dropout(at::relu(norm(first(inputs)))));
  }
  torch::nn::Linear first{2, 4}, last{4, 1};
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Dropout dropout{0.5};
};
TORCH_MODULE(Net);

struct Now {
  bool newcomer = false;
  std::string sign;           // a file: a newcomer has had a share
  std::optional<Share> kept;  // of an earlier call of the closure
};
Now& now() {
  static Now it;
  return it;
}

// Draws from the default generator at the commit.
struct NoisySgd : lockstep::SGD {
  using SGD::SGD;
  void step() override {
    // The last witness, in the first update of the newcomer's first step.
    if (!now().newcomer && std::filesystem::remove(now().sign)) std::raise(SIGKILL);
    SGD::step();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& p : parameters()) p.add_(at::randn_like(p), 1e-3);
  }
};

std::vector<at::Tensor> together(std::vector<at::Tensor> some,
                                 const std::vector<at::Tensor>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

struct Nets {
  explicit Nets(const Job& job)
      : of_b(job.name.starts_with("shared") ? together(b->parameters(), a->parameters())
                                            : b->parameters(),
             {.lr = 0.01}) {}
  Net a, b;
  NoisySgd of_a{a->parameters(), {.lr = 0.01, .momentum = 0.5}};
  lockstep::Adam of_b;
  lockstep::GradScaler scaler;
};

// Which process has computed which share; in one write.
void tell_owner(const Job& job, const Share& share) {
  std::ofstream(job.output + "/owners", std::ios::app)
      << std::to_string(share.global_step()) + " " + std::to_string(share.update()) + " " +
             std::to_string(share.virtual_worker()) + " " + std::to_string(getpid()) + "\n";
}

// What is wrong in which way.
void add_wrongly(const Job& job, Share& share) {
  const std::string v = std::to_string(share.virtual_worker());
  if (job.is("sum-empty")) share.add("", 1);
  if (job.is("sum-long")) share.add(std::string(32, 'a'), 1);
  if (job.is("sum-letters")) share.add("a b", 1);
  if (job.is("sum-key")) share.add("loss_mean", 1);
  if (job.is("sum-count")) share.add("a", 1, -1);
  if (job.is("sum-kept") && now().kept) now().kept->add("a", 1);
  if (job.is("sum-kept")) now().kept = share;
  if (job.is("sum-by-rank")) share.add("rank", job.context.rank());
  if (job.is("sum-name-by-rank")) share.add("rank" + std::to_string(job.context.rank()), 1);
  for (int i = 0; i < (job.is("sum-17") ? 17 : 0); ++i) share.add("n" + std::to_string(i), 1);
  for (int i = 0; i < (job.is("sum-20-of-all") ? 5 : 0); ++i)
    share.add("of" + v + "/" + std::to_string(i), 1);
  for (int i = 0; i < (job.is("sum-16") ? 15 : 0); ++i)
    share.add("a_name.that-is/as-long-as_it_m" + std::string(1, char('a' + i)), 1.0 / 3 / (i + 1));
}

void add_sums(const Job& job, Share& share) {
  add_wrongly(job, share);
  if (job.name.starts_with("sum-")) return share.add("all", 1.0 / 3, 3);
  // In another order it comes to something else.
  constexpr double kInTurn[]{1e16, 1, -1e16, 1};
  share.add("order", kInTurn[share.virtual_worker()] * double(1 << share.update() % 3));
  const double sum = share.batch().inputs.sum().item<double>();
  share.add("inputs", sum, 0);
  share.add("inputs", sum / 3, 2);
  if (share.update() == 2) share.add("late", double(share.global_step()), 2);
  if (share.virtual_worker() == 3 && share.global_step() == 5)
    share.add("nan", std::numeric_limits<double>::quiet_NaN());
}

at::Tensor loss_of(const Job& job, Nets& nets, Share& share) {
  const bool first = share.update() == 0;
  const std::int64_t step = share.global_step(), v = share.virtual_worker();
  if (now().newcomer && job.is("last-witness"))
    std::ofstream(std::exchange(now().sign, "")).flush();
  if (job.is("slow-owners")) tell_owner(job, share);
  add_sums(job, share);
  if (job.is("ends") && first && step == 7 && v == 1) share.end_run();
  if (job.is("sits-out") && (step + share.update() + v) % 3 == 0) return {};
  if (job.is("left-out") && (step % 3 == 1 || share.update() == 2)) return {};
  const at::Tensor& inputs = share.batch().inputs;
  if (job.is("in-place") && first) inputs.mul_(2);
  at::Tensor loss = ((first ? nets.a : nets.b)(inputs)-share.batch().targets).pow(2).mean();
  if (job.is("noise")) {
    at::manual_seed(share.seed());
    loss = loss * at::rand({});
    if (!first) loss = loss + (nets.a(inputs).mean() * 0);
  }
  if (job.is("many") && share.update() == 1)
    loss = loss + std::numeric_limits<double>::quiet_NaN();  // its gradients are numbers
  if (job.is("both") || job.name.ends_with("-by-rank") || job.name.starts_with("shared"))
    loss = loss + (first ? nets.b : nets.a)(inputs).mean();
  if (job.name.starts_with("nan") && !first && step == 4 && v == 1)
    loss = loss * std::numeric_limits<double>::quiet_NaN();
  return loss;
}

std::vector<Step::Update> updates_of(const Job& job, Nets& nets, const Step& step,
                                     const Step::Closure& loss) {
  const bool other = job.context.rank() == 1 && step.global_step() == 3;
  lockstep::Optimizers both = std::vector<Optimizer*>{&nets.of_a, &nets.of_b};
  if (job.is("order-by-rank") && other) both = {&nets.of_b, &nets.of_a};
  if (job.is("both") || job.is("order-by-rank") || job.name.starts_with("shared"))
    return {{both, loss}, {both, loss}, {both, loss}};
  if (job.is("list-by-rank") && other)
    return {{nets.of_a, loss}, {nets.of_a, loss}, {nets.of_b, loss}};
  if (job.is("too-few")) return {{nets.of_a, loss}, {nets.of_b, loss}};
  if (job.is("twice")) return {{{&nets.of_a, &nets.of_a}, loss}};
  if (job.is("none")) return {{lockstep::Optimizers({}), loss}};
  if (job.is("no-loss")) return {{nets.of_a, nullptr}};
  if (job.is("many")) {
    std::vector<Step::Update> updates(kMany, {nets.of_b, loss});
    updates.front() = {nets.of_a, loss};
    return updates;
  }
  return {{nets.of_a, loss}, {nets.of_b, loss}, {nets.of_b, loss}};
}

// The same in all workers that were in the step. Nobody else's line comes in between.
void print(const lockstep::StepResult& result) {
  std::string text;
  for (std::size_t u = 0; u < result.updates.size(); ++u) {
    const lockstep::UpdateResult& update = result.updates[u];
    char line[256];
    std::snprintf(
        line, sizeof line, "result %ld.%zu loss %a mean %a norm %a left out %d order %a\n",
        long{result.global_step}, u, update.loss, update.loss_mean, update.grad_norm.value_or(-1),
        static_cast<int>(update.left_out), update.sums["order"].sum);
    text += line;
  }
  text += "result " + std::to_string(result.global_step) + " sums";
  for (const auto& [name, sum] : result.sums) {
    char item[128];
    std::snprintf(item, sizeof item, " %s %a/%ld", name.c_str(), sum.sum, long{sum.count});
    text += item;
  }
  text += "\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options;
  options.output = job.output;
  options.epochs = job.epochs;
  options.batch_size = 2;
  options.virtual_workers = 4;
  options.updates_per_step = 3;
  options.checkpoint_every = lockstep::Duration::steps(4);
  options.log_every = lockstep::Duration::steps(5);
  if (job.is("slow-owners")) options.rehearse = 0;  // each share is computed once
  if (job.is("accumulates")) options.accumulation_steps = 2;
  if (job.is("sum-16")) options.virtual_workers = 1;
  if (job.is("ahead")) options.prefetch_threads = 2;
  if (job.name.starts_with("own") || job.is("trainer-absent")) options.updates_per_step = 1;
  if (job.is("many")) {
    options.updates_per_step = kMany;
    options.max_steps = 2;
  }
  if (job.is("both")) options.clip_grad_norm = 0.01;
  if (job.is("scaler") || job.is("left-out")) options.grad_norm = true;
  if (job.is("nan-skip")) options.on_nan = lockstep::OnNan::kSkip;
  if (job.is("nan-stop")) options.on_nan = lockstep::OnNan::kStop;
  return options;
}

// As a text that takes its time to be read.
lockstep::TrainState::Text slow_text() {
  return {"slow", [] { return std::string("text"); },
          [](const std::string&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(40));
            return Status();
          }};
}

Status train(const Job& job) {
  Nets nets(job);
  constexpr std::int64_t kLarge = 10'000'000;  // 40 MB
  const at::Tensor factor = at::ones({}), large = at::zeros({job.is("slow-large") ? kLarge : 0});
  std::atomic<std::int64_t> fetched = 0;
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(
                                at::randn({96, 2}), at::randn({96, 1}),
                                [&](lockstep::data::Batch batch, const lockstep::data::Pass&) {
                                  ++fetched;
                                  return batch;
                                }));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("a", *nets.a));
  LOCKSTEP_TRY(state.add("b", *nets.b));
  LOCKSTEP_TRY(state.add("of_a", nets.of_a));
  LOCKSTEP_TRY(state.add("of_b", nets.of_b));
  if (job.is("slow-to-load")) LOCKSTEP_TRY(state.add(slow_text()));
  if (job.is("slow") || job.is("draws")) LOCKSTEP_TRY(state.add("own", {{"factor", factor}}));
  if (job.is("slow-large")) LOCKSTEP_TRY(state.add("own", {{"large", large}}));
  if (job.name.ends_with("scaler")) LOCKSTEP_TRY(state.add("scaler", nets.scaler));
  if (job.is("librarys-name")) LOCKSTEP_TRY(state.add("lockstep.step", {{"x", at::zeros({1})}}));
  Step step(job.context, state, options_of(job));
  LOCKSTEP_TRY(step.open(set));
  if (job.is("opens-twice")) return step.open(set);
  now() = {.newcomer = step.global_step() > 0, .sign = job.output + ".newcomer", .kept = {}};
  const auto loss = [&](Share& share) {
    const at::Tensor plain = loss_of(job, nets, share);
    return plain.defined() ? plain * factor : plain;
  };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    lockstep::test::hold_step(job.output, step.global_step());
    if (job.is("slow")) factor.mul_(at::rand({}) / 16 + 1);  // once a step, whatever happens
    if (job.is("draws")) factor.add_(at::rand({}), 1e-3);    // and the same in all workers
    if (job.name.starts_with("slow") || job.is("last-witness"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    LOCKSTEP_ASSIGN(
        const lockstep::StepResult result,
        job.is("one") ? step.run(nets.of_a, loss) : step.run(updates_of(job, nets, step, loss)));
    if (!job.is("many") && !job.is("slow-held") && !job.is("slow-large")) print(result);
  }
  std::printf("fetched %ld\n", long{fetched.load()});
  return {};
}

// A tensor that is in no module: of the state's own, or (own-module) in one for its sake.
Status own_tensor(const Job& job) {
  struct Shift : torch::nn::Module {
    explicit Shift(at::Tensor& tensor) { tensor = register_parameter("shift", tensor); }
  };
  torch::nn::Linear net(2, 1);
  at::Tensor shift = at::zeros({1}).set_requires_grad(!job.is("own-unfrozen"));
  std::optional<Shift> module;
  if (job.is("own-module")) module.emplace(shift);
  std::optional<lockstep::MasterWeights> masters;
  if (job.is("own-masters")) masters.emplace(*net, at::kBFloat16);
  lockstep::SGD optimizer(together(masters ? masters->parameters() : net->parameters(), {shift}),
                          {.lr = 0.01, .momentum = 0.5});
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::randn({96, 2}), at::randn({96, 1})));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  if (masters) LOCKSTEP_TRY(state.add("masters", *masters));
  LOCKSTEP_TRY(module ? state.add("own", *module) : state.add("own", {{"shift", shift}}));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  Step step(job.context, state, options_of(job));
  LOCKSTEP_TRY(step.open(set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    if (job.is("own-unfrozen") && step.global_step() == 3) shift.set_requires_grad(true);
    LOCKSTEP_TRY(step.run(optimizer, [&](Share& share) {
      const at::Tensor inputs = share.batch().inputs.to(net->weight.scalar_type());
      return (net(inputs).to(at::kFloat) + shift - share.batch().targets).pow(2).mean();
    }));
  }
}

// "free-40", "free-updates-40": so many steps without data, of one update or three; "free": until a
// share ends it.
Status without_data(const Job& job) {
  torch::nn::Linear net(2, 1);
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.5});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::RunOptions options;
  options.output = job.output;
  options.virtual_workers = 4;
  options.checkpoint_every = lockstep::Duration::steps(7);
  options.log_every = lockstep::Duration::steps(10);
  options.max_steps = std::atol(job.name.substr(job.name.find_last_of('-') + 1).c_str());
  if (job.name.starts_with("free-updates")) options.updates_per_step = 3;
  Step step(job.context, state, options);
  LOCKSTEP_TRY(step.open());
  const auto loss = [&](Share& share) {
    if (job.is("free-asks")) return share.batch().inputs.mean();
    if (job.is("free") && step.global_step() == 7) share.end_run();
    return (net(at::randn({8, 2})) - share.virtual_worker()).pow(2).mean();
  };
  const auto updates = static_cast<std::size_t>(options.updates_per_step);
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(std::vector<Step::Update>(updates, {optimizer, loss})));
  }
}

// For a file, which says that the process may end.
void wait_for(const std::string& path) {
  lockstep::test::until([&] { return std::filesystem::exists(path); }, std::chrono::seconds(300));
}

Status trainer(const Job& job) {
  Net net;
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::randn({60, 2}), at::randn({60, 1})));
  lockstep::Trainer trainer(job.context, *net, optimizer, options_of(job));
  trainer.loss([&](const lockstep::data::Batch& batch) {
    return job.is("trainer-absent") ? at::Tensor() : net(batch.inputs).mean();
  });
  return trainer.fit(set);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) {
    Job job{context, argv[1], argv[2], 2};
    if (job.is("slow")) job.epochs = 8;  // newcomers come in before its end
    if (argc > 3) job.epochs = std::atol(argv[3]);
    if (job.name.starts_with("free")) return without_data(job);
    if (job.name.starts_with("own")) return own_tensor(job);
    const Status status = job.name.starts_with("trainer") ? trainer(job) : train(job);
    if (job.is("slow-held")) wait_for(job.output + ".go");
    return status;
  });
}
