#include "train/lines.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace lockstep::training {
namespace {

// A transaction's lines have a limit.
constexpr std::size_t kMostRates = 16;
constexpr std::size_t kMostLosses = 8;

// JSON has no word for what is not finite.
std::string json_number(double value) { return std::isfinite(value) ? shortest(value) : "null"; }

std::string hex_digits(std::uint64_t word) {
  std::array<char, 16> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), word, 16).ptr};
}

// C's %a: every bit, readable by Python's float.fromhex().
std::string hex(double value) {
  if (!std::isfinite(value)) return shortest(value);
  std::array<char, 32> text;
  char* const end = std::to_chars(text.data(), text.data() + text.size(), std::fabs(value),
                                  std::chars_format::hex)
                        .ptr;
  return (std::signbit(value) ? "-0x" : "0x") + std::string(text.data(), end);
}

// With a time limit nobody knows how many there will be.
std::string epoch_of(std::int64_t epoch, std::int64_t epochs) {
  const std::string of = epochs < Plan::kEpochsInTime ? "/" + std::to_string(epochs) : "";
  return "Epoch [" + std::to_string(epoch + 1) + of + "], ";
}

std::string step_of(const Position& position, const Plan& plan) {
  return "Step [" + std::to_string(position.step + 1) + "/" + std::to_string(plan.steps_per_epoch) +
         "]";
}

// "Epoch [1/10], Step [100/600]".
std::string place_of(const Position& position, const Plan& plan) {
  if (plan.has_epochs) return epoch_of(position.epoch, plan.epochs) + step_of(position, plan);
  return "Step [" + std::to_string(position.global_step + 1) +
         (plan.knows_its_end() ? "/" + std::to_string(plan.planned_steps()) : "") + "]";
}

std::string metrics_of(Txn txn, const Position& position, const std::string& rest,
                       bool has_epochs = true) {
  return "{\"txn\":" + std::to_string(txn.value()) +
         ",\"step\":" + std::to_string(position.global_step) +
         (has_epochs ? ",\"epoch\":" + std::to_string(position.epoch) : "") + "," + rest + "}\n";
}

std::string json_rates(const std::vector<double>& rates) {
  if (rates.size() == 1) return json_number(rates.front());
  std::string list;
  for (std::size_t i = 0; i < std::min(rates.size(), kMostRates); ++i)
    list += (i == 0 ? "" : ",") + json_number(rates[i]);
  return "[" + list + "]";
}

// Of an evaluation.
struct Figures {
  double loss = 0;     // mean
  double correct = 0;  // NaN: not counted
  std::int64_t count = 0;
};

Figures figures_of(const Score& score) {
  return {score.loss_sum / static_cast<double>(score.count), score.correct, score.count};
}

std::string told(const Figures& figures, EvaluatedOn set) {
  const std::string loss = (set == EvaluatedOn::kTestSet ? "Test loss: " : "Validation loss: ") +
                           with_decimals(figures.loss, 4);
  if (std::isnan(figures.correct)) return loss + "\n";
  const auto count = static_cast<double>(figures.count);
  return loss + ", Accuracy: " + with_decimals(100 * figures.correct / count, 2) + " % (" +
         with_decimals(figures.correct, 0) + "/" + std::to_string(figures.count) + ")\n";
}

std::string recorded(const Figures& figures, EvaluatedOn set) {
  const std::string name = set == EvaluatedOn::kTestSet ? "\"test_" : "\"valid_";
  std::string text = name + "loss\":" + json_number(figures.loss);
  if (!std::isnan(figures.correct))
    text += "," + name +
            "accuracy\":" + json_number(figures.correct / static_cast<double>(figures.count)) +
            "," + name + "correct\":" + with_decimals(figures.correct, 0);
  return text + "," + name + "samples\":" + std::to_string(figures.count);
}

std::string recorded(const Sums& sums) {
  if (sums.empty()) return "";
  std::string means, exact;
  for (const auto& [name, sum] : sums) {
    const std::string key = "\"" + name + "\":";
    means += "," + key + json_number(sum.mean());
    exact += (exact.empty() ? "" : ",") + key + "[" + json_number(sum.sum) + "," +
             std::to_string(sum.count) + "]";
  }
  return means + ",\"sums\":{" + exact + "}";
}

std::string recorded_if_any(const std::string& name, std::int64_t samples) {
  return samples > 0 ? ",\"" + name + "\":" + std::to_string(samples) : "";
}

std::string left_out_of(EvaluatedOn set, std::int64_t samples) {
  return recorded_if_any(set == EvaluatedOn::kTestSet ? "test_left_out" : "valid_left_out",
                         samples);
}

std::string samples_text(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

// All that the functions below write.
constexpr std::array<std::string_view, 32> kKeys{
    "txn",           "step",           "epoch",
    "update",        "loss",           "loss_hex",
    "loss_mean",     "samples",        "lr",
    "grad_norm",     "scale",          "skipped",
    "replaced",      "sums",           "train_loss",
    "broken",        "train_accuracy", "train_replaced",
    "epoch_step",    "exported",       "test_loss",
    "test_accuracy", "test_correct",   "test_samples",
    "test_left_out", "valid_loss",     "valid_accuracy",
    "valid_correct", "valid_samples",  "valid_left_out",
    "ends",          "state_xxh3"};

}  // namespace

bool is_metrics_key(std::string_view name) {
  const bool of_redone = name == "redone" || name == "before";
  return of_redone || std::ranges::find(kKeys, name) != kKeys.end();
}

std::string whole_lines(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string step_in_words(const Plan& plan, Txn txn) {
  const Position position = plan.at(txn);
  return "step " + std::to_string(position.global_step) +
         (plan.updates_per_step > 1 ? ", update " + std::to_string(position.update) : "");
}

std::string step_line(const Position& position, const Plan& plan,
                      const std::vector<std::optional<double>>& losses) {
  if (std::ranges::none_of(losses, &std::optional<double>::has_value))
    return place_of(position, plan) + ", no share took part\n";
  std::string line = place_of(position, plan) + ", Loss: ";
  for (std::size_t u = 0; u < std::min(losses.size(), kMostLosses); ++u)
    line += (u == 0 ? "" : ", ") + (losses[u] ? with_decimals(*losses[u], 4) : "none");
  return line + (losses.size() > kMostLosses ? ", …\n" : "\n");
}

// Of an epoch that is cut short. A time limit's is evaluated, and has its files.
static std::string what_is_left_out(const Plan& plan, bool evaluates, bool whole) {
  if (whole || plan.stops()) return "";
  std::string what = evaluates ? "; the epoch is not evaluated" : "";
  if (plan.exports)
    what += evaluates ? ", and its files are not written" : "; the epoch's files are not written";
  return what;
}

std::string cut_line(const Position& position, const Plan& plan, bool evaluates) {
  const bool whole = position.step + 1 == plan.steps_per_epoch;
  return "The run ends here, at step " + std::to_string(position.step + 1) +
         (plan.has_epochs ? " of " + std::to_string(plan.steps_per_epoch) + " of epoch " +
                                std::to_string(position.epoch + 1)
                          : "") +
         " (" +
         (plan.ended_early   ? "by the program"
          : plan.stops()     ? "the time limit"
          : plan.by_duration ? "--max-duration"
                             : "--max-steps") +
         ")" + what_is_left_out(plan, evaluates, whole) + "\n";
}

std::string not_finite_line(const Position& position, const Plan& plan, const std::string& what,
                            bool skipped) {
  const std::string update = plan.updates_per_step > 1
                                 ? ", Update [" + std::to_string(position.update + 1) + "/" +
                                       std::to_string(plan.updates_per_step) + "]"
                                 : "";
  return "Warning: " + place_of(position, plan) + update + ": " + what +
         (skipped ? "; the update is left out (--on-nan skip)\n" : "; training goes on\n");
}

std::string evaluation_line(const EpochEnd& end, EvaluatedOn set) {
  return epoch_of(end.epoch, end.epochs) + told({end.loss, end.correct, end.count}, set);
}

std::string evaluation_line(const Position& position, const Plan& plan, const Score& score,
                            EvaluatedOn set) {
  Position last = position;
  --last.step;
  return epoch_of(position.epoch, plan.epochs) + step_of(last, plan) + ", " +
         told(figures_of(score), set);
}

std::string step_metrics(Txn txn, const Position& position, const StepFigures& of) {
  std::string rest = of.update ? "\"update\":" + std::to_string(*of.update) + "," : "";
  rest += "\"loss\":" + json_number(of.loss) + ",\"loss_hex\":\"" + hex(of.loss) +
          "\",\"loss_mean\":" + json_number(of.loss_mean) +
          ",\"samples\":" + std::to_string(of.samples) + ",\"lr\":" + json_rates(of.rates);
  if (of.grad_norm) rest += ",\"grad_norm\":" + json_number(*of.grad_norm);
  if (of.scale) rest += ",\"scale\":" + json_number(*of.scale);
  if (of.skipped) rest += ",\"skipped\":true";
  if (of.ends) rest += ",\"ends\":true";
  rest += recorded_if_any("replaced", of.replaced);
  if (of.state) rest += ",\"state_xxh3\":\"" + hex_digits(*of.state) + "\"";
  if (of.redone != nullptr) rest += std::string(",\"redone\":\"") + of.redone + "\"";
  rest += recorded(of.sums);
  return metrics_of(txn, position, rest, of.has_epochs);
}

std::string epoch_metrics(Txn txn, const Position& position, const EpochEnd& end, EvaluatedOn set) {
  std::string rest =
      "\"train_loss\":" + json_number(end.train_loss) + ",\"lr\":" + json_number(end.lr);
  if (!std::isnan(end.train_accuracy))
    rest += ",\"train_accuracy\":" + json_number(end.train_accuracy);
  if (end.broken) rest += ",\"broken\":true";
  if (end.count > 0) rest += "," + recorded({end.loss, end.correct, end.count}, set);
  rest += recorded_if_any("train_replaced", end.train_replaced) + left_out_of(set, end.left_out) +
          recorded(end.sums);
  return metrics_of(txn, position, rest);
}

std::string evaluation_metrics(Txn txn, const Position& position, const Score& score,
                               EvaluatedOn set) {
  return metrics_of(txn, position,
                    "\"epoch_step\":" + std::to_string(position.step) +
                        (score.count > 0 ? "," + recorded(figures_of(score), set) : "") +
                        left_out_of(set, score.left_out));
}

std::string export_metrics(Txn txn, const Position& position, bool written) {
  return metrics_of(txn, position, std::string("\"exported\":") + (written ? "true" : "false"));
}

std::string left_out_text(const EpochEnd& last) {
  if (last.train_replaced == 0 && last.left_out == 0) return "";
  std::string text = "left out as damaged in the last epoch:";
  if (last.train_replaced > 0)
    text += " " + samples_text(last.train_replaced) + " in training, where the next ones stood in";
  if (last.train_replaced > 0 && last.left_out > 0) text += ";";
  if (last.left_out > 0) text += " " + samples_text(last.left_out) + " in the evaluation";
  return text + (last.train_replaced > 0 ? " (ledger.jsonl has \"replaced\" of each step)" : "");
}

std::string left_out_text(std::int64_t seen) {
  if (seen == 0) return "";
  return "left out as damaged: at least " + samples_text(seen) +
         " of the training set, where the next ones stood in (ledger.jsonl has \"replaced\" of "
         "each step)";
}

std::string duration_text(double seconds) {
  const std::int64_t us = std::llround(seconds * 1e6), whole = us / 1'000'000;
  const std::string fraction = std::to_string(us % 1'000'000);
  return std::to_string(whole / 3600) + ":" + two_digits(whole / 60 % 60) + ":" +
         two_digits(whole % 60) + "." + std::string(6 - fraction.size(), '0') + fraction;
}

}  // namespace lockstep::training
