#include "rundir/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/places.h"
#include "base/processes.h"
#include "rundir/names.h"

namespace lockstep::rundir {
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

// A run writes its manifest before anything else of its own; an empty folder of that name can only
// be what is left of one.
bool is_in_the_way(const fs::path& path) {
  std::error_code error;
  return worth_keeping(path) || (path.filename() == "checkpoints" && fs::exists(path, error));
}

Status check_ours(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "manifest.json", error)) return {};
  for (const char* name : kRunNames)
    if (is_in_the_way(fs::path(path) / name))
      return Error{ErrorKind::kUsage,
                   "'" + path + "' is not empty and holds no run of Lockstep (it has '" + name +
                       "' but no manifest.json); give another --output or, if "
                       "its run was moved away, remove this directory and move "
                       "the run's back in its place"};
  return {};
}

// What `lock` is of, whatever is at the path.
Places directory_of(const std::string& path, int lock) {
  const auto held = posix_env().file_id(path_through(lock));
  return Places(posix_env(), {{path, held.ok() ? *held : FileId{}}});
}

}  // namespace

Result<UniqueFd> lock_run_directory(const std::string& path, Deadline deadline) {
  LOCKSTEP_TRY(posix_env().make_dirs(std::filesystem::path(path).parent_path().string()));
  // For its owner alone: whoever reaches the control socket ends the run.
  if (::mkdir(path.c_str(), 0700) != 0) LOCKSTEP_TRY(posix_env().make_dirs(path));
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd)
    return Error{ErrorKind::kDisk,
                 "cannot open the run directory '" + path + "': " + std::strerror(errno)};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{ErrorKind::kDisk,
                   "cannot lock the run directory '" + path + "': " + std::strerror(errno)};
    if (deadline.passed())
      return Error{ErrorKind::kUnavailable, "the run directory '" + path +
                                                "' is in use by another run that is still alive" +
                                                lock_holder(path_through(fd.get()))};
    pause(std::chrono::milliseconds(10));
  }
  LOCKSTEP_TRY(check_ours(path));
  return fd;
}

std::string path_through(int lock) { return "/proc/self/fd/" + std::to_string(lock); }

Status check_run_directory(const std::string& path, int lock) {
  const auto missing = directory_of(path, lock).missing();
  return missing ? Status(missing->error) : Status();
}

std::string place_of(const std::string& path, int lock) {
  return directory_of(path, lock).has_directory() ? path : path_through(lock);
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

}  // namespace lockstep::rundir
