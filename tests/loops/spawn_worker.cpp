// spawn_worker N CASE RUN_DIR [at ADDRESS RANK WORLD] [options of the launcher]: a run of
// lockstep::spawn(N), right or wrong in the way that CASE says; N = init: of lockstep::init(), for
// `lockstep run` or alone; at: N ranks from RANK on, by hand.
#include <ATen/Functions.h>
#include <pthread.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/spawn.h"
#include "lockstep/step.h"
#include "support/held_steps.h"

namespace {

using lockstep::Context;
using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Status;

struct Job {
  std::string name, output;
  lockstep::SpawnOptions options;
  int inherited = 0;
  bool is(const char* wanted) const { return name == wanted; }
};

// 60 steps of 4 virtual workers; long: 2,100, each with a pause until OUTPUT-go is there.
Status train(Context& context, const Job& job) {
  at::manual_seed(1);
  LOCKSTEP_ASSIGN(auto data,
                  lockstep::data::tensor_dataset(at::randn({24, 3}), at::randn({24, 1})));
  torch::nn::Linear model(3, 1);
  lockstep::SGD optimizer(model->parameters(), {.lr = 0.05, .momentum = 0.9});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::RunOptions options;
  options.output = job.output;
  options.batch_size = 2;
  options.epochs = job.is("long") ? 700 : 20;
  options.virtual_workers = 4;
  options.checkpoint_every = lockstep::Duration::steps(10);
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(data));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    if (step.global_step() == 5 && context.rank() == 1 && job.is("fails"))
      return Error{ErrorKind::kBadData, "picture 7 is no picture"};
    if (step.global_step() == 5 && job.is("throws")) throw std::runtime_error("no such class");
    lockstep::test::hold_step(job.output, step.global_step());
    while (job.is("held") && step.global_step() == 55 &&
           !std::filesystem::exists(job.output + "-go"))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (job.is("long") && !std::filesystem::exists(job.output + "-go"))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (job.is("slow") || job.is("handler"))
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      return (model->forward(share.batch().inputs) - share.batch().targets).square().mean();
    }));
  }
}

Status work(Context& context, const Job& job) {
  std::printf("rank %d of %d inherits %d, %s threads\n", context.rank(), context.world_size(),
              job.inherited, std::getenv("OMP_NUM_THREADS"));
  if (job.is("nested")) return lockstep::spawn(2, [](Context&) { return Status(); });
  if (job.is("init-inside")) {
    auto again = lockstep::init();
    return again.ok() ? Status() : Status(again.error());
  }
  return train(context, job);
}

Status spawn(int n, const Job& job) {
  return lockstep::spawn(
      n, [&](Context& context) { return work(context, job); }, job.options);
}

[[noreturn]] void end(const Status& status) {
  std::printf("spawn() has returned\n");
  if (!status.ok()) lockstep::exit_with(status.error());
  std::fflush(nullptr);
  ::_exit(0);
}

void note_signal(int) {
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, "handled\n", 8);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Job job{argv[2], argv[3], {}, 0};
  int words = 4;
  if (argc > 7 && argv[4] == std::string("at")) {
    job.options.init.rendezvous = {argv[5], std::atoi(argv[6]), std::atoi(argv[7])};
    words = 8;
  }
  job.options.launcher.assign(argv + words, argv + argc);
  if (argv[1] == std::string("init") || job.is("after-init")) {
    auto context = lockstep::init();
    if (!context.ok()) lockstep::exit_with(context.error());
    if (job.is("after-init")) end(spawn(2, job));
    lockstep::exit_with(*context, train(*context, job));
  }
  const int n = std::atoi(argv[1]);
  std::printf("before, once\n");  // stays in the buffer where that is no terminal
  job.inherited = 42;
  if (job.is("handler")) ::signal(SIGTERM, note_signal);
  if (job.is("children-ignored")) ::signal(SIGCHLD, SIG_IGN);
  std::thread second;
  if (job.is("thread")) {
    second = std::thread([] { ::pause(); });
    ::pthread_setname_np(second.native_handle(), "prefetcher");
  }
  if (job.is("empty")) end(lockstep::spawn(n, nullptr));
  Status status = spawn(n, job);
  if (job.is("twice") && status.ok()) {
    job.output += "-again";
    job.inherited = 43;
    status = spawn(n, job);
  }
  if (job.is("init-after") && status.ok()) {
    const auto context = lockstep::init();
    std::printf("launched: %d\n", context.ok() ? int{context->launched()} : -1);
  }
  end(status);
}
