#include "rundir/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/env.h"
#include "base/flock.h"
#include "base/log.h"
#include "base/places.h"
#include "base/processes.h"
#include "base/text.h"
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

std::string claim_name(const NodeOfRun& self) {
  std::array<char, 17> run{};
  std::snprintf(run.data(), run.size(), "%016llx", static_cast<unsigned long long>(self.run));
  return std::string(kReservedPrefix) + "run-" + run.data();
}

std::string text_of(const NodeOfRun& self) {
  return "node " + std::to_string(self.node) + " (" + self.host + ")";
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
    if (has_no_locks(errno)) {
      log_warning("the file system of the run directory '" + path + "' has no locks (" +
                  std::strerror(errno) + "): see to it that no other run is given it");
      break;
    }
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

Status claim_run_directory(const std::string& path, const NodeOfRun& self) {
  const std::string link = path + "/" + claim_name(self);
  if (::symlink(text_of(self).c_str(), link.c_str()) == 0) return {};
  if (errno == EEXIST) return check_claim(path, self);
  return Error{ErrorKind::kDisk, "cannot make '" + link + "': " + std::strerror(errno)};
}

Status check_claim(const std::string& path, const NodeOfRun& self) {
  const std::string link = path + "/" + claim_name(self);
  std::error_code error;
  if (!fs::is_symlink(link, error)) return {};
  const std::string other = fs::read_symlink(link, error).string();
  if (other == text_of(self)) return {};
  return Error{ErrorKind::kUsage, "the run directory '" + path + "' of node " +
                                      std::to_string(self.node) + " is also that of " +
                                      for_terminal(error ? "another node" : other) +
                                      ": give each node its own, as --output '" + path + "/node-" +
                                      std::to_string(self.node) + "' on this one"};
}

std::string path_through(int lock) { return "/proc/self/fd/" + std::to_string(lock); }

Status check_run_directory(const std::string& path, int lock) {
  const auto missing = directory_of(path, lock).missing();
  return missing ? Status(missing->error) : Status();
}

std::string place_of(const std::string& path, int lock) {
  return directory_of(path, lock).has_directory() ? path : path_through(lock);
}

void remove_leftovers(const std::string& path, const NodeOfRun* keep) {
  const std::string kept = keep == nullptr ? "" : claim_name(*keep);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kReservedPrefix)) {
      if (name != kept) found.push_back(entry->path());
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
