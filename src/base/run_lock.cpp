#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/env.h"
#include "base/log.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// NNNN.json, which a start that was killed before its manifest may have written.
bool is_incident(const std::string& name) {
  const auto digits = name.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string::npos && name.substr(digits) == ".json";
}

// Something that would be lost: empty files, made by own loops too, are nobody's loss.
bool worth_keeping(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return fs::exists(path, error) &&
           (!fs::is_regular_file(path, error) || fs::file_size(path, error) > 0);
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    if (path.filename() != "incidents" || !is_incident(entry->path().filename().string()))
      return true;
  return static_cast<bool>(error);
}

// A run writes its manifest before anything else of its own.
Status check_ours(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "manifest.json", error)) return {};
  for (const char* name : kRunNames)
    if (worth_keeping(fs::path(path) / name))
      return Error{ErrorKind::kUsage, "'" + path +
                                          "' is not empty and holds no run of Lockstep (it has '" +
                                          name + "' but no manifest.json); give another --output"};
  return {};
}

}  // namespace

Result<UniqueFd> lock_run_directory(const std::string& path, Deadline deadline) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd)
    return Error{ErrorKind::kDisk,
                 "cannot open the run directory '" + path + "': " + std::strerror(errno)};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{ErrorKind::kDisk,
                   "cannot lock the run directory '" + path + "': " + std::strerror(errno)};
    if (deadline.passed())
      return Error{ErrorKind::kUnavailable,
                   "the run directory '" + path + "' is in use by another run that is still alive"};
    pause(std::chrono::milliseconds(10));
  }
  LOCKSTEP_TRY(check_ours(path));
  return fd;
}

void remove_leftovers(const std::string& path) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kReservedPrefix)) {
      found.push_back(entry->path());
      entry.disable_recursion_pending();
    } else if (entry.depth() >= 1) {
      entry.disable_recursion_pending();
    }
  }
  for (const fs::path& leftover : found) {
    fs::remove_all(leftover, error);
    if (error)
      log_warning("cannot remove the leftover '" + leftover.string() + "': " + error.message());
  }
}

}  // namespace lockstep
