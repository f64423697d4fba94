#include "lines.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace cifar_cluster {
namespace {

constexpr std::size_t kMostBytes = 1400;  // 1,500 are allowed

// Python's %.4f, which knows no sign of what is not a number.
std::string four_decimals(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 330> text;  // the largest double has 309 digits
  const int size = std::snprintf(text.data(), text.size(), "%.4f", value);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

std::string epoch_lines(const lockstep::EpochEnd& end) {
  const std::string epoch = " | epoch: " + std::to_string(end.epoch + 1) + " | loss: ";
  const std::string val = end.count == 0  // --evaluate-every
                              ? ""
                              : "val" + epoch + four_decimals(end.loss) +
                                    " | accuracy: " + four_decimals(end.accuracy) + " \n\n";
  const std::size_t all = end.train_losses.size();
  std::string lines;
  std::size_t shown = 0;
  for (std::size_t bytes = 0; shown < all; ++shown) {
    const std::string train = "train" + epoch + four_decimals(end.train_losses[shown]) + "\n";
    bytes += train.size() + val.size();
    if (bytes > kMostBytes) break;
    lines += train;
  }
  for (std::size_t v = 0; v < shown; ++v) lines += val;
  if (shown < all)
    lines += "... and so on for " + std::to_string(all - shown) + " more virtual workers\n";
  return lines;
}

}  // namespace cifar_cluster
