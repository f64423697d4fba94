#include "lines.h"

#include <array>
#include <cstdio>

namespace classifier {

std::string epoch_header(std::int64_t epoch) {
  return "Epoch " + std::to_string(epoch + 1) + "\n-------------------------------\n";
}

// Python's `{loss:>7f}  [{current:>5d}/{size:>5d}]`.
std::string loss_line(double loss, std::int64_t current, std::int64_t size) {
  std::array<char, 400> text;  // the largest double has 309 digits
  const int length = std::snprintf(text.data(), text.size(), "loss: %7f  [%5ld/%5ld]\n", loss,
                                   long{current}, long{size});
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string of_each_rank(std::size_t first, std::size_t ranks,
                         const std::function<std::string(std::size_t)>& line) {
  std::string lines;
  for (std::size_t v = first; v < ranks; ++v) lines += line(v);
  return lines;
}

}  // namespace classifier
