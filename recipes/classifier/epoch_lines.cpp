#include "epoch_lines.h"

#include <array>
#include <charconv>
#include <cmath>

namespace classifier {

// The shortest digits that are this number, with an exponent below 1e-4 and from 1e16 on.
std::string python_number(double value) {
  if (std::isnan(value)) return "nan";
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16) || std::isinf(size);
  std::array<char, 32> text;
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific)
          .ptr;
  std::string number(text.data(), static_cast<std::size_t>(end - text.data()));
  if (plain && std::isfinite(size) && number.find('.') == std::string::npos) number += ".0";
  return number;
}

std::string best_lines(const lockstep::EpochEnd& end) {
  if (!end.is_best()) return "";
  const double before = std::isnan(end.best_before) ? 0 : end.best_before;
  return "\nPrev Best Val Acc: " + python_number(before) +
         " < Cur Val Acc: " + python_number(end.accuracy) + "\nSaving the new best model...\n";
}

std::string epoch_lines(const lockstep::EpochEnd& end) {
  const std::string epoch =
      "(Epoch " + std::to_string(end.epoch + 1) + "/" + std::to_string(end.epochs) + ") ";
  const auto seconds = static_cast<std::int64_t>(end.seconds);
  const std::string val = end.count == 0  // --evaluate-every
                              ? ""
                              : epoch + "Val loss: " + python_number(end.loss) +
                                    ", Val accuracy: " + python_number(end.accuracy) + "\n";
  return (end.written ? "Finished saving model\n\n\n" : "\n") + epoch +
         "Time: " + std::to_string(seconds) + "s\n" + epoch +
         "Average train loss: " + python_number(end.train_loss) +
         ", Average train accuracy: " + python_number(end.train_accuracy) + "\n" + val + epoch +
         "Current best val acc: " + python_number(end.best) + "\n\n";
}

}  // namespace classifier
