// epochs_worker RUN_DIR FOLDER [WORD...]: a Trainer with all that an epoch's end may have: two
// schedules, the best, lines of its own and files in FOLDER; FOLDER.writers has the epoch of each
// time that somebody writes there. Words: `few` epochs, or `four`; `fails` to write
// (`fails-at-N`: epoch N alone); a `snapshot` there of each epoch, and no checkpoints but the last:
// a new run begins from it; `stops` early; `bare`: nothing is written, and none is the best;
// `damaged`: training's sample 3 and the second evaluation batch are damaged; `unusable`: all that
// is evaluated, too; `sparse`: so many of training's that virtual workers have steps without any;
// `none`: all of training's; `uncounted`: the best by an accuracy that nobody counts; `wordy`:
// an epoch's end has more to say than there is room for; `by-sum`: the best, and the end, by what
// shares add; `average`, `counts`: what is evaluated is no part of the state, or has a counter in
// it; `unknown-sum`, `loss-sum`, `batch-sum`, `many-sums`: by what none adds, by a name
// that is none, by a loss of the batch, and 18 names in an epoch; `thirds`: each third epoch alone
// is evaluated; `one-batch`: in one batch.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/lockstep.h"
#include "support/held_steps.h"
#include "worker_main.h"

namespace {

using lockstep::EpochEnd;
using lockstep::Result;
using lockstep::StartPoint;
using lockstep::data::Batch;

std::string text_of(const lockstep::Sums& sums) {
  std::string text = "; sums";
  for (const auto& [name, sum] : sums) {
    char item[96];
    std::snprintf(item, sizeof item, " %s %a/%ld", name.c_str(), sum.sum, long{sum.count});
    text += item;
  }
  return text;
}

std::string text_of(const EpochEnd& end) {
  char text[256];
  std::snprintf(text, sizeof text,
                "epoch %ld/%ld after %ld: train %a, lr %g, loss %a, correct %g of %ld, best %a in "
                "%ld, before %a; of each",
                long{end.epoch}, long{end.epochs}, long{end.global_step}, end.train_loss, end.lr,
                end.loss, end.correct, long{end.count}, end.best, long{end.best_epoch},
                end.best_before);
  std::string whole = text;
  for (const double loss : end.train_losses) whole += " " + std::to_string(loss);
  return whole + text_of(end.sums) + "\n";
}

std::string text_of(const lockstep::StepEnd& end) {
  std::string text = "step " + std::to_string(end.global_step) + ":";
  for (std::size_t v = 0; v < end.losses.size(); ++v)
    text += " " + std::to_string(end.losses[v]) + " of " + std::to_string(end.samples[v]);
  return text + text_of(end.sums) + "\n";
}

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& inputs) { return linear->forward(inputs); }
  torch::nn::Linear linear{3, 1};
  at::Tensor seen = register_buffer("seen", at::zeros({1}));
};
TORCH_MODULE(Net);

class Job {
 public:
  Job(lockstep::Context& context, int argc, char** argv)
      : context_(context), run_(argv[1]), folder_(argv[2]), words_(argv + 3, argv + argc) {}

  lockstep::Status train() {
    lockstep::RunOptions options;
    options.output = run_;
    options.batch_size = 2;
    options.epochs = has("few") ? 2 : has("four") ? 4 : 6;
    options.virtual_workers = 3;
    options.checkpoint_every = lockstep::Duration::steps(has("snapshot") ? 0 : 3);
    options.evaluation_batch_size = has("one-batch") ? 13 : 5;
    if (has("thirds")) options.evaluate_every = lockstep::Duration::epochs(3);
    for (const std::string_view word : words_)
      if (word.starts_with("from=")) options.resume = word.substr(5);
    lockstep::Adam optimizer(model_->parameters(), {.lr = 0.1});
    lockstep::StepLR steps(optimizer, 4, 0.5);
    using Mode = lockstep::ReduceLROnPlateauOptions::Mode;
    const Mode mode = has("maximum") ? Mode::kMax : Mode::kMin;
    lockstep::ReduceLROnPlateau plateau(optimizer, {.mode = mode, .patience = 0, .threshold = 0.5});
    lockstep::Trainer trainer(context_, *model_, optimizer, options);
    if (has("batch-sum"))
      trainer.loss([&](const Batch& batch) { return loss_of(batch); });
    else
      trainer.loss([&](lockstep::Share& share) { return loss_of(share); });
    if (has("average"))
      trainer.on_update([&](const lockstep::UpdateEnd&) { average_.add_(model_->linear->bias); });
    trainer.evaluation([&](const Batch& batch) {
      at::Tensor out = model_->forward(batch.inputs);
      if (has("average")) out = out + average_;
      if (has("counts")) out = out + ++evaluated_;
      model_->seen.add_(static_cast<double>(out.size(0)));  // is undone
      const double noise = 1e-3 * at::rand({1}).item<double>();
      return lockstep::Score{
          (out - batch.targets).square().sum().item<double>() + noise,
          has("uncounted") ? std::nan("") : (out * batch.targets).gt(0).sum().item<double>(),
          out.size(0)};
    });
    trainer.schedule(steps);
    trainer.schedule(plateau);
    using lockstep::BestOf;
    if (!has("bare")) trainer.best(has("uncounted") ? BestOf::kAccuracy : BestOf::kLoss);
    if (has("by-sum") || has("batch-sum")) trainer.best("distance", lockstep::BestMode::kMax);
    if (has("unknown-sum")) trainer.best("distanse", lockstep::BestMode::kMin);
    if (has("loss-sum")) trainer.best("loss", lockstep::BestMode::kMin);
    trainer.step_lines([](const lockstep::StepEnd& end) { return text_of(end); });
    trainer.epoch_lines([this](const EpochEnd& end) {
      return has("wordy") ? std::string(6'000, '-') : text_of(end);
    });
    if (!has("bare"))
      trainer.exports([&](const EpochEnd& end) { return write(end, optimizer); },
                      [](const EpochEnd& end) {
                        return "epoch " + std::to_string(end.epoch) +
                               (end.written ? " is written\n" : " is not written\n");
                      });
    if (has("stops"))
      trainer.stop_when([this](const EpochEnd& end) {
        if (has("by-sum")) return end.sums["third"].count > 0;
        return has("bare") ? end.epoch == 3 : end.best_before - end.best < 0.01;
      });
    if (has("snapshot")) trainer.start_from([&] { return load(); });
    trainer.on_resume([](std::int64_t epoch, std::int64_t step) {
      std::printf("goes on at epoch %ld, step %ld\n", long{epoch}, long{step});
    });
    LOCKSTEP_ASSIGN(auto train_set, has("none")     ? data(24, 0, 23)
                                    : has("sparse") ? data(24, 3, 14)
                                                    : data(24, 3, 3));
    const bool unusable = has("unusable");
    LOCKSTEP_ASSIGN(auto test_set, data(13, unusable ? 0 : 5, unusable ? 12 : 9));
    return trainer.fit(train_set, test_set);
  }

 private:
  at::Tensor loss_of(lockstep::Share& share) {
    lockstep::test::hold_step(run_, share.global_step());
    const at::Tensor loss = loss_of(share.batch());
    const std::int64_t epoch = share.epoch();
    // Up and down: the first one is the greatest of the even epochs.
    share.add("distance", loss.item<double>() * (epoch % 2 == 0 ? 1 : -1), share.batch().size());
    share.add("inputs", share.batch().inputs.sum().item<double>(), 0);
    if (epoch % 3 == 2) share.add("third", 1);
    if (has("many-sums"))
      for (int i = 0; i < 4; ++i)
        share.add("n" + std::to_string(share.step()) + "/" + std::to_string(i), 1);
    return loss;
  }

  at::Tensor loss_of(const Batch& batch) {
    return torch::nn::functional::mse_loss(model_->forward(batch.inputs), batch.targets);
  }

  // Every second epoch; with the weights of its end and the next one's rate.
  bool has(const char* word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }
  std::string snapshot() const { return folder_ + "/snapshot.pt"; }

  Result<std::optional<StartPoint>> load() {
    if (!std::filesystem::exists(snapshot())) return std::optional<StartPoint>();
    LOCKSTEP_ASSIGN(const lockstep::PtFields fields, lockstep::load_pt(snapshot()));
    LOCKSTEP_TRY(lockstep::load_state_dict(*model_, snapshot(), "weights"));
    return std::optional(StartPoint{std::get<std::int64_t>(fields.at(1).second) + 1,
                                    std::get<double>(fields.at(2).second)});
  }

  Result<bool> write(const EpochEnd& end, const lockstep::Optimizer& optimizer) {
    std::ofstream(folder_ + ".writers", std::ios::app) << std::to_string(end.epoch) + "\n";
    if (has("fails") || has(("fails-at-" + std::to_string(end.epoch)).c_str()))
      return lockstep::Error{lockstep::ErrorKind::kDisk, "no room for " + folder_};
    if (has("snapshot"))
      LOCKSTEP_TRY(lockstep::save_pt(
          snapshot(), {{"weights", &*model_}, {"epoch", end.epoch}, {"best", end.best}}));
    if (end.epoch % 2 == 0) return false;
    lockstep::TrainState state;
    LOCKSTEP_TRY(state.add("model", *model_));
    std::ofstream file(folder_ + "/epoch_" + std::to_string(end.epoch));
    file << text_of(end) << "next " << optimizer.lr() << " " << state.weights_sha256() << "\n";
    return true;
  }

  // With `damaged` these samples are left out.
  Result<std::shared_ptr<const lockstep::data::Dataset>> data(std::int64_t rows, std::int64_t first,
                                                              std::int64_t last) const {
    at::manual_seed(7);
    const at::Tensor inputs = at::randn({rows, 3});
    if (!has("damaged") && !has("unusable") && !has("sparse") && !has("none"))
      return lockstep::data::tensor_dataset(inputs, inputs.sum(1, true));
    return lockstep::data::tensor_dataset(
        inputs, inputs.sum(1, true), [=](Batch batch, const lockstep::data::Pass&) {
          const at::Tensor ids = at::tensor(batch.ids, at::kLong);
          const at::Tensor sound = ids.lt(first).logical_or(ids.gt(last));
          std::erase_if(batch.ids, [=](std::int64_t id) { return id >= first && id <= last; });
          return Batch{batch.inputs.index({sound}), batch.targets.index({sound}), batch.ids};
        });
  }

  lockstep::Context& context_;
  std::string run_, folder_;
  std::vector<std::string> words_;
  Net model_;
  at::Tensor average_ = at::zeros({1});
  double evaluated_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) { return Job(context, argc, argv).train(); });
}
