#include "train/lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace lockstep::train {
namespace {

__attribute__((format(printf, 1, 2))) std::string print(const char* format, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return {text.data(),
          static_cast<std::size_t>(std::min<int>(length, static_cast<int>(text.size()) - 1))};
}

using Int = long long;

// JSON has no word for what is not finite.
std::string json_number(double value) {
  return std::isfinite(value) ? print("%.17g", value) : "null";
}

}  // namespace

std::string step_line(const Position& position, const Plan& plan, double loss) {
  return print("Epoch [%lld/%lld], Step [%lld/%lld], Loss: %.4f\n", Int{position.epoch + 1},
               Int{plan.epochs}, Int{position.step + 1}, Int{plan.steps_per_epoch}, loss);
}

std::string evaluation_line(const Position& position, const Plan& plan, double loss_sum,
                            double correct, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const std::string loss = print("Epoch [%lld/%lld], Test loss: %.4f", Int{position.epoch + 1},
                                 Int{plan.epochs}, loss_sum / n);
  if (std::isnan(correct)) return loss + "\n";
  return loss + print(", Accuracy: %.2f %% (%.0f/%lld)\n", 100 * correct / n, correct, Int{count});
}

std::string step_metrics(Txn txn, const Position& position, double loss, double loss_mean,
                         std::uint64_t samples) {
  return print(
      "{\"txn\":%llu,\"step\":%lld,\"epoch\":%lld,\"loss\":%s,\"loss_hex\":\"%a\",\"loss_mean\":"
      "%s,\"samples\":%llu}\n",
      static_cast<unsigned long long>(txn.value()), Int{position.global_step}, Int{position.epoch},
      json_number(loss).c_str(), loss, json_number(loss_mean).c_str(),
      static_cast<unsigned long long>(samples));
}

std::string evaluation_metrics(Txn txn, const Position& position, double loss_sum, double correct,
                               std::int64_t count) {
  const auto n = static_cast<double>(count);
  const std::string accuracy = std::isnan(correct)
                                   ? ""
                                   : print("\"test_accuracy\":%s,\"test_correct\":%.0f,",
                                           json_number(correct / n).c_str(), correct);
  return print(
      "{\"txn\":%llu,\"step\":%lld,\"epoch\":%lld,\"test_loss\":%s,%s\"test_samples\":%lld}\n",
      static_cast<unsigned long long>(txn.value()), Int{position.global_step}, Int{position.epoch},
      json_number(loss_sum / n).c_str(), accuracy.c_str(), Int{count});
}

std::string duration_text(double seconds) {
  const auto us = static_cast<Int>(std::llround(seconds * 1e6));
  const Int whole = us / 1'000'000;
  return print("%lld:%02lld:%02lld.%06lld", whole / 3600, whole / 60 % 60, whole % 60,
               us % 1'000'000);
}

}  // namespace lockstep::train
