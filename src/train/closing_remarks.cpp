#include "train/closing_remarks.h"

#include <cmath>

#include "base/env.h"
#include "train/lines.h"

namespace lockstep::training {
namespace {

std::string in_words(const BestBy& best) {
  if (!best.name.empty()) return "the mean of '" + best.name + "' (Share::add())";
  if (best.of == BestOf::kAccuracy) return "the evaluation's accuracy";
  return best.of == BestOf::kLoss ? "the evaluation's loss" : "the training's loss";
}

bool ended_an_epoch(const EndOfRun& end) {
  return end.book != nullptr && (end.book->last_whole().epoch >= 0 || end.book->last().broken);
}

// Nothing is less than a NaN, and a NaN is less than nothing.
std::string no_best(const EndOfRun& end) {
  if (end.hooks.best.nothing() || !ended_an_epoch(end)) return "";
  if (end.book->last().best_epoch >= 0 || !std::isnan(end.book->last().best)) return "";
  return "no epoch was the best: " + in_words(end.hooks.best) +
         " was not a number at any epoch's end (nan), so there is no best checkpoint, and nothing "
         "was written that is for the best epoch alone";
}

std::string plateau_without_a_number(const EndOfRun& end) {
  if (!ended_an_epoch(end)) return "";
  for (const LRScheduler* scheduler : end.state.schedulers()) {
    const auto* plateau = dynamic_cast<const ReduceLROnPlateau*>(scheduler);
    if (plateau == nullptr || !std::isinf(plateau->best()) || end.hooks.steps_per_update(plateau))
      continue;
    const EpochEnd last = end.book->last_whole();
    if (std::isnan(last.count > 0 ? last.loss : last.train_loss))
      return "ReduceLROnPlateau was never given a number: what it goes by was nan at each epoch's "
             "end, which counts as no improvement";
  }
  return "";
}

std::string missing_files(const EndOfRun& end) {
  std::string missing;
  for (const std::string& file : end.spec.options.files)
    if (!posix_env().exists(file)) missing += (missing.empty() ? "'" : ", '") + file + "'";
  return missing.empty() ? "" : "not written: " + missing;
}

std::string without_updates(const EndOfRun& end) {
  const bool all = end.idle_steps > 0 && end.idle_steps >= static_cast<std::uint64_t>(end.steps);
  const GradScaler* const scaler = end.state.scaler();
  const bool no_scale = scaler != nullptr && scaler->is_enabled() && scaler->get_scale() == 0;
  if (!all && !no_scale) return "";
  const std::string steps = all ? "all " + std::to_string(end.idle_steps) + " steps"
                                : "the last " + std::to_string(end.idle_steps) + " steps";
  const bool finite = scaler == nullptr && end.spec.options.on_nan != OnNan::kSkip;
  const std::string absent = "no share took part (the closure returned an undefined tensor)";
  std::string text = steps + " changed nothing: their updates were left out, as ";
  if (finite) return text + absent;
  text += scaler != nullptr ? "the scaled gradients" : "the loss or a gradient";
  text += " had an infinity or a NaN";
  if (!end.hooks.loss && !no_scale) text += ", or " + absent;
  if (no_scale)
    text += "; the GradScaler's scale has fallen to 0, from which it does not rise again";
  return text + ". Try a smaller learning rate";
}

}  // namespace

std::vector<std::string> closing_remarks(const EndOfRun& end) {
  std::vector<std::string> remarks;
  const auto add = [&](std::string text) {
    if (!text.empty()) remarks.push_back(std::move(text));
  };
  add(without_updates(end));
  add(plateau_without_a_number(end));
  add(no_best(end));
  add(missing_files(end));
  add(end.book != nullptr ? left_out_text(end.book->last()) : left_out_text(end.left_out));
  return remarks;
}

}  // namespace lockstep::training
