#include "lines.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace cifar_cluster {
namespace {

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
  std::string lines;
  for (const double loss : end.train_losses) lines += "train" + epoch + four_decimals(loss) + "\n";
  for (std::size_t v = 0; v < end.train_losses.size(); ++v) lines += val;
  return lines;
}

}  // namespace cifar_cluster
