#include "train/lines.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostRates = 16;  // a transaction's lines have a limit

// JSON has no word for what is not finite.
std::string json_number(double value) { return std::isfinite(value) ? shortest(value) : "null"; }

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

std::string metrics_of(Txn txn, const Position& position, const std::string& rest) {
  return "{\"txn\":" + std::to_string(txn.value()) +
         ",\"step\":" + std::to_string(position.global_step) +
         ",\"epoch\":" + std::to_string(position.epoch) + "," + rest + "}\n";
}

std::string json_rates(const std::vector<double>& rates) {
  if (rates.size() == 1) return json_number(rates.front());
  std::string list;
  for (std::size_t i = 0; i < std::min(rates.size(), kMostRates); ++i)
    list += (i == 0 ? "" : ",") + json_number(rates[i]);
  return "[" + list + "]";
}

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

}  // namespace

std::string whole_lines(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::string step_line(const Position& position, const Plan& plan, double loss) {
  return epoch_of(position.epoch, plan.epochs) + step_of(position, plan) +
         ", Loss: " + with_decimals(loss, 4) + "\n";
}

std::string cut_line(const Position& position, const Plan& plan, bool evaluates) {
  const bool whole = position.step + 1 == plan.steps_per_epoch;
  return "The run ends here, at step " + std::to_string(position.step + 1) + " of " +
         std::to_string(plan.steps_per_epoch) + " of epoch " + std::to_string(position.epoch + 1) +
         " (" +
         (plan.ended_early   ? "by the program"
          : plan.stops()     ? "the time limit"
          : plan.by_duration ? "--max-duration"
                             : "--max-steps") +
         ")" + (evaluates && !whole && !plan.stops() ? "; the epoch is not evaluated\n" : "\n");
}

std::string not_finite_line(const Position& position, const Plan& plan, const std::string& what,
                            bool skipped) {
  return "Warning: " + epoch_of(position.epoch, plan.epochs) + step_of(position, plan) + ": " +
         what + (skipped ? "; the update is left out (--on-nan skip)\n" : "; training goes on\n");
}

std::string evaluation_line(const EpochEnd& end, EvaluatedOn set) {
  const std::string loss = epoch_of(end.epoch, end.epochs) +
                           (set == EvaluatedOn::kTestSet ? "Test loss: " : "Validation loss: ") +
                           with_decimals(end.loss, 4);
  if (std::isnan(end.correct)) return loss + "\n";
  return loss +
         ", Accuracy: " + with_decimals(100 * end.correct / static_cast<double>(end.count), 2) +
         " % (" + with_decimals(end.correct, 0) + "/" + std::to_string(end.count) + ")\n";
}

std::string step_metrics(Txn txn, const Position& position, double loss, double loss_mean,
                         std::uint64_t samples, const std::vector<double>& rates,
                         std::optional<double> scale, bool skipped) {
  return metrics_of(txn, position,
                    "\"loss\":" + json_number(loss) + ",\"loss_hex\":\"" + hex(loss) +
                        "\",\"loss_mean\":" + json_number(loss_mean) +
                        ",\"samples\":" + std::to_string(samples) + ",\"lr\":" + json_rates(rates) +
                        (scale ? ",\"scale\":" + json_number(*scale) : "") +
                        (skipped ? ",\"skipped\":true" : ""));
}

std::string epoch_metrics(Txn txn, const Position& position, const EpochEnd& end, EvaluatedOn set) {
  const std::string name = set == EvaluatedOn::kTestSet ? "test" : "valid";
  std::string rest =
      "\"train_loss\":" + json_number(end.train_loss) + ",\"lr\":" + json_number(end.lr);
  if (!std::isnan(end.train_accuracy))
    rest += ",\"train_accuracy\":" + json_number(end.train_accuracy);
  const auto add = [&](const char* figure, const std::string& value) {
    rest += ",\"" + name + figure + "\":" + value;
  };
  if (end.count > 0) add("_loss", json_number(end.loss));
  if (end.count > 0 && !std::isnan(end.correct)) {
    add("_accuracy", json_number(end.accuracy));
    add("_correct", with_decimals(end.correct, 0));
  }
  if (end.broken) rest += ",\"broken\":true";
  if (end.count > 0) add("_samples", std::to_string(end.count));
  return metrics_of(txn, position, rest);
}

std::string export_metrics(Txn txn, const Position& position, bool written) {
  return metrics_of(txn, position, std::string("\"exported\":") + (written ? "true" : "false"));
}

std::string duration_text(double seconds) {
  const std::int64_t us = std::llround(seconds * 1e6), whole = us / 1'000'000;
  const std::string fraction = std::to_string(us % 1'000'000);
  return std::to_string(whole / 3600) + ":" + two_digits(whole / 60 % 60) + ":" +
         two_digits(whole % 60) + "." + std::string(6 - fraction.size(), '0') + fraction;
}

}  // namespace lockstep::train
