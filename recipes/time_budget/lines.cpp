#include "lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

namespace time_budget {
namespace {

template <class... Arguments>
std::string text(const char* format, Arguments... arguments) {
  std::array<char, 512> line;
  const int size = std::snprintf(line.data(), line.size(), format, arguments...);
  return {line.data(), std::min(static_cast<std::size_t>(size), line.size() - 1)};
}

std::string for_each(std::size_t count, const std::function<std::string(std::size_t)>& line_of) {
  std::string lines;
  for (std::size_t v = 0; v < count; ++v) lines += line_of(v);
  return lines;
}

// Python's float("inf") before the first epoch's.
double or_infinity(std::int64_t epoch, double loss) {
  return epoch == 0 ? std::numeric_limits<double>::infinity() : loss;
}

}  // namespace

std::string rate_lines(int virtual_workers, double lr) {
  return for_each(static_cast<std::size_t>(virtual_workers),
                  [&](std::size_t) { return text("Learning Rate = %.8f\n", lr); });
}

std::string step_lines(const lockstep::StepEnd& end) {
  if (end.step != 0) return "";
  return for_each(end.samples.size(), [&](std::size_t v) {
    return text(
        "\n[GPU%zu] Epoch: %ld | Batch_SZ: %ld | Steps: %ld | T_loss: %.3f | V_loss: %.3f\n", v,
        long{end.epoch}, long{end.samples[v]}, long{end.steps_per_epoch},
        or_infinity(end.epoch, end.last_train_loss), or_infinity(end.epoch, end.last_loss));
  });
}

std::string export_lines(const lockstep::EpochEnd& end, const std::string& snapshot) {
  const double seconds = end.history.back().run_seconds;
  const std::string saved = end.written ? "Training snapshot saved at " + snapshot + "\n" : "";
  return saved + for_each(end.train_losses.size(), [&](std::size_t) {
           std::string lines = text("\nCurrent Train Time: %.1f hours & %.2f minutes\n",
                                    std::floor(seconds / 3600), std::fmod(seconds, 3600.0) / 60);
           if (end.out_of_time)
             lines += text("Training completed -> Total train time: %.2f seconds\n", seconds);
           return lines;
         });
}

}  // namespace time_budget
