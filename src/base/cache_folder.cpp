#include "base/cache_folder.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace lockstep {
namespace {

bool is_folder(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::vector<std::string> cache_folders() {
  std::vector<std::string> folders;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') folders.emplace_back(cache);
  const auto add_home = [&](const char* home) {
    if (home != nullptr && *home == '/' && is_folder(home))
      folders.push_back(std::string(home) + "/.cache");
  };
  add_home(std::getenv("HOME"));
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> names{};
  if (::getpwuid_r(::geteuid(), &entry, names.data(), names.size(), &found) == 0 &&
      found != nullptr)
    add_home(entry.pw_dir);
  return folders;
}

}  // namespace lockstep
