#include "base/processes.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;  // a process ends, or is another user's
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    found.push_back(entry->path());
  return found;
}

bool has(const fs::path& process, const std::function<bool(const OpenFile&)>& is_it) {
  for (const fs::path& fd : entries_of(process / "fd"))
    if (is_it({fd.string(), (process / "fdinfo" / fd.filename()).string()})) return true;
  return false;
}

}  // namespace

std::vector<pid_t> processes_with(const std::function<bool(const OpenFile&)>& is_it,
                                  std::size_t most) {
  std::vector<pid_t> found;
  for (const fs::path& process : entries_of("/proc")) {
    const auto pid = number_of<pid_t>(process.filename().string());
    if (!pid || !has(process, is_it)) continue;
    found.push_back(*pid);
    if (found.size() == most) break;
  }
  return found;
}

}  // namespace lockstep
