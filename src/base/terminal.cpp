#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep {

std::size_t terminal_columns(int fd) {
  constexpr std::size_t kUsual = 79;  // of one that does not say
  if (::isatty(fd) != 1) return 0;
  const char* const kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb") return 0;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : kUsual;
}

std::string progress_bar(std::uint64_t some, std::uint64_t all, std::size_t width) {
  some = std::min(some, all);
  const std::size_t full = some * width / all;
  const std::string percent = std::to_string(some * 100 / all);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "] " +
         std::string(3 - percent.size(), ' ') + percent + " %  ";
}

}  // namespace lockstep
