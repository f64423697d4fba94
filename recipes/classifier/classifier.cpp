// The fault-tolerant classifier (tutorial 000): photographs in folders by class, a ResNet-34 with a
// new head, the best model as a file.
//
//   classifier --data Dataset_2 --weights resnet34-b627a593.pth
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include <cstdio>
#include <filesystem>

#include "best_model.h"
#include "epoch_lines.h"
#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "options.h"
#include "photographs.h"

namespace F = torch::nn::functional;
using classifier::Options;
using classifier::Photographs;
using lockstep::EpochEnd;
using lockstep::Result;
using lockstep::Score;
using lockstep::Status;
using lockstep::data::Batch;

namespace {

constexpr std::int64_t kFeatures = 512;

// The tutorial's getResNet(). Frozen is more than its listing means: the layers are in evaluation
// mode, so that batch norm's statistics stay what they were, too.
Result<std::shared_ptr<lockstep::models::Backbone>> make_model(const Options& options,
                                                               std::int64_t classes) {
  auto model = lockstep::models::resnet34();
  if (!options.weights.empty()) LOCKSTEP_TRY(lockstep::load_state_dict(*model, options.weights));
  if (options.frozen()) {
    lockstep::models::freeze(*model);
    model->eval();
  }
  model->replace_head(lockstep::models::two_layer_head(kFeatures, classes));
  return model;
}

class Loss {
 public:
  explicit Loss(double smoothing) : smoothing_(smoothing) {}
  at::Tensor mean(const at::Tensor& scores, const at::Tensor& targets) const {
    return F::cross_entropy(scores, targets, options());
  }
  double sum(const at::Tensor& scores, const at::Tensor& targets) const {
    return F::cross_entropy(scores, targets, options().reduction(torch::kSum)).item<double>();
  }

 private:
  F::CrossEntropyFuncOptions options() const {
    return F::CrossEntropyFuncOptions().label_smoothing(smoothing_);
  }
  double smoothing_;
};

double correct(const at::Tensor& scores, const at::Tensor& targets) {
  return scores.argmax(1).eq(targets).sum().item<double>();
}

Score score(lockstep::models::Network& model, const Loss& loss, const Batch& batch) {
  const at::Tensor scores = model.forward(batch.inputs);
  return {loss.sum(scores, batch.targets), correct(scores, batch.targets), batch.targets.size(0)};
}

std::string figures(const std::string& set, const Score& score) {
  const auto count = static_cast<double>(score.count);
  return set + " loss: " + classifier::python_number(score.loss_sum / count) + ", " + set +
         " accuracy: " + classifier::python_number(score.correct / count);
}

// What the tutorial's rank 0 does when all is trained: the file is read and evaluated again.
Status tell_best(const Options& options, const Photographs& photographs, const Loss& loss) {
  LOCKSTEP_ASSIGN(const auto model, make_model(options, photographs.classes()));
  LOCKSTEP_ASSIGN(const auto best, classifier::load_best(options.checkpoint_file, *model));
  const auto score_batch = [&](const Batch& batch) { return score(*model, loss, batch); };
  std::string lines;
  if (best) {
    const std::int64_t size = options.run.batch_size;
    LOCKSTEP_ASSIGN(const Score val,
                    lockstep::evaluate(*model, *photographs.validation, size, score_batch));
    lines += "\nBest model (" + figures("val", val);
    if (photographs.test != nullptr) {
      LOCKSTEP_ASSIGN(const Score test,
                      lockstep::evaluate(*model, *photographs.test, size, score_batch));
      lines += ", " + figures("test", test);
    }
    lines += ") has been saved to " + options.checkpoint_file + "\n\n";
  }
  lines +=
      "Cleaning up the distributed environment...\n"
      "Distributed environment has been properly closed\n";
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
  return {};
}

Status train(lockstep::Context& context, const Options& options, const Photographs& photographs) {
  at::manual_seed(options.run.seed);
  LOCKSTEP_ASSIGN(const auto model, make_model(options, photographs.classes()));
  const Loss loss(options.label_smoothing);
  lockstep::Adam optimizer(lockstep::models::trainable_parameters(*model), {.lr = options.lr});
  lockstep::ReduceLROnPlateau scheduler(optimizer, {.factor = 0.1, .patience = 5, .min_lr = 1e-8});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss([&](const Batch& batch) {
    const at::Tensor scores = model->forward(batch.inputs);
    return lockstep::LossAndCorrect{loss.mean(scores, batch.targets),
                                    correct(scores, batch.targets)};
  });
  trainer.evaluation([&](const Batch& batch) { return score(*model, loss, batch); },
                     lockstep::EvaluatedOn::kValidationSet);
  trainer.schedule(scheduler);
  trainer.best(lockstep::BestOf::kAccuracy);
  trainer.epoch_lines(classifier::best_lines);
  trainer.exports(
      [&](const EpochEnd& end) -> Result<bool> {
        if (end.is_best())
          LOCKSTEP_TRY(classifier::save_best(options.checkpoint_file, end, *model));
        return end.is_best();
      },
      classifier::epoch_lines);
  trainer.start_from([&] { return classifier::load_best(options.checkpoint_file, *model); });
  trainer.on_resume([](std::int64_t epoch, std::int64_t) {
    std::printf("resuming training from epoch %ld\n", long{epoch});
  });
  trainer.on_finished([&] { return tell_best(options, photographs, loss); });
  return trainer.fit(photographs.train, photographs.validation);
}

// From a run's checkpoint, or a file of one.
bool goes_on(const Options& options) {
  std::error_code code;
  return std::filesystem::exists(options.run.output + "/manifest.json", code) ||
         std::filesystem::exists(options.checkpoint_file, code);
}

void greet(const Options& options, const Photographs& photographs) {
  if (options.weights.empty() && !goes_on(options))
    std::fprintf(stderr, "no --weights: it begins from random values%s\n",
                 options.frozen() ? ", and all but its head stays so (--backbone frozen)" : "");
  std::printf("Train set size: %ld, Validation set size: %ld\n", long{photographs.train->size()},
              long{photographs.validation->size()});
}

}  // namespace

// Archives are unpacked and folders read before init(): once per node.
int main(int argc, char** argv) {
  const Options options = classifier::parse(argc, argv);
  const auto photographs = classifier::open_photographs(options);
  if (!photographs.ok()) lockstep::exit_with(photographs.error());
  if (lockstep::is_first_main()) greet(options, *photographs);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, *photographs));
}
