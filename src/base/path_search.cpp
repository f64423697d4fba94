#include "base/path_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace lockstep {

bool is_executable(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> search_path(const std::string& name) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? "/usr/bin:/bin" : variable;
  while (true) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string folder(end == 0 ? "." : path.substr(0, end));
    if (std::string file = folder + "/" + name; is_executable(file)) return file;
    if (end == path.size()) return std::nullopt;
    path.remove_prefix(end + 1);
  }
}

}  // namespace lockstep
