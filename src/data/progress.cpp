#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/deadline.h"
#include "base/terminal.h"
#include "data/download.h"

namespace lockstep::data {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBarWidth = 24;

std::string megabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string amount(std::uint64_t done, std::uint64_t total) {
  return megabytes(done) + (total > done ? " of " + megabytes(total) : "") + " MB";
}

void print(int fd, const std::string& text) {
  // Progress that cannot be written has nowhere to be reported.
  [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
}

}  // namespace

Progress progress_to(int fd) {
  const bool terminal = terminal_columns(fd) > 0;
  const Deadline::Clock::duration pause = terminal ? 100ms : 5s;
  const auto next = std::make_shared<Deadline>(Deadline::in(terminal ? 0s : pause));
  return [=](const std::string& file, std::uint64_t done, std::uint64_t total) {
    const bool end = done == total;
    if (!end && !next->passed()) return;
    *next = Deadline::in(pause);
    if (!terminal) return print(fd, file + ": " + amount(done, total) + "\n");
    const std::string line = file + "  " +
                             (total == 0 ? "" : progress_bar(done, total, kBarWidth)) +
                             amount(done, total);
    // \r, then erase to the end of the line.
    print(fd, "\r" + line.substr(0, terminal_columns(fd)) + "\x1b[K" + (end ? "\n" : ""));
  };
}

}  // namespace lockstep::data
