// Tutorial 001: a VGG-19 on photographs, for so many hours, the same for any number of workers.
//
//   lockstep run --standalone --nproc-per-node 2 multi_node_trainer --train_time 2.0
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include <cmath>
#include <cstdio>

#include "evaluate.h"
#include "lines.h"
#include "lockstep/lockstep.h"
#include "model.h"
#include "options.h"
#include "photographs.h"
#include "saves.h"

namespace F = torch::nn::functional;
using lockstep::EpochEnd;
using lockstep::Status;
using lockstep::data::Batch;
using time_budget::Options;
using time_budget::Photographs;

namespace {

void say(const std::string& lines) {
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
}

Status train(lockstep::Context& context, const Options& options, const Photographs& photographs) {
  LOCKSTEP_ASSIGN(const lockstep::RunSoFar run, lockstep::run_so_far(context, options.run));
  const double lr = options.lr * std::sqrt(static_cast<double>(run.virtual_workers));
  at::manual_seed(options.run.seed);
  LOCKSTEP_ASSIGN(const auto model, time_budget::make_model(options, photographs.classes()));
  lockstep::SGD optimizer(model->parameters(), {.lr = lr});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss([&](const Batch& batch) {
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  trainer.evaluation(
      [&](const Batch& batch) {
        return lockstep::cross_entropy_score(model->forward(batch.inputs), batch.targets);
      },
      lockstep::EvaluatedOn::kValidationSet);
  trainer.best(lockstep::BestOf::kLoss);
  trainer.keep_history();
  trainer.step_lines([&](const lockstep::StepEnd& end) {
    const bool first = end.global_step == 0;
    const std::string rates = first ? time_budget::rate_lines(run.virtual_workers, lr) : "";
    return rates + time_budget::step_lines(end);
  });
  trainer.epoch_lines([](const EpochEnd&) { return std::string(); });
  trainer.exports(
      [&](const EpochEnd& end) { return time_budget::write_saves(options, end, *model); },
      [&](const EpochEnd& end) { return time_budget::export_lines(end, options.snapshot()); });
  trainer.start_from([&] { return time_budget::load_snapshot(options, *model); });
  trainer.on_resume([&](std::int64_t epoch, std::int64_t) {
    say(time_budget::rate_lines(run.virtual_workers, lr) +
        "Loading snapshot\nResuming training from save at Epoch " + std::to_string(epoch) + "\n");
  });
  return trainer.fit(photographs.train, photographs.validation);
}

}  // namespace

// Folders are read before init(): once per node.
int main(int argc, char** argv) {
  Options options = time_budget::parse(argc, argv);
  const auto photographs = time_budget::open_photographs(options);
  if (!photographs.ok()) lockstep::exit_with(photographs.error());
  options.run.identity = time_budget::identity_of(options, *photographs);
  if (!options.evaluate.empty()) {
    const Status done = time_budget::evaluate(options, *photographs);
    if (!done.ok()) lockstep::exit_with(done.error());
    return 0;
  }
  if (options.weights.empty() && lockstep::is_first_main())
    std::fputs("no --weights: a new run begins from random values\n", stderr);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, *photographs));
}
