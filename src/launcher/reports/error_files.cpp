#include "launcher/reports/error_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/temporary.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "lockstep_errors_";
constexpr int kMostEntries = 4096;  // of a crowded /tmp: a start takes milliseconds

// The lock of a folder that is this user's, and nobody else's at this moment.
UniqueFd lock_of(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  const bool ours = fd && ::fstat(fd.get(), &info) == 0 && info.st_uid == ::geteuid() &&
                    ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  return ours ? std::move(fd) : UniqueFd();
}

void remove_leftovers(const std::string& place) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(place.c_str()), ::closedir);
  if (!folder) return;
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) return;
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const std::string path = place + "/" + entry->d_name;
    std::error_code error;
    if (const UniqueFd lock = lock_of(path)) fs::remove_all(path, error);
  }
}

}  // namespace

Result<ErrorFiles> ErrorFiles::open() {
  // Between its making and its locking another launcher may take it for a leftover.
  for (int tries = 0;; ++tries) {
    LOCKSTEP_ASSIGN(std::string folder, make_temporary_folder(std::string(kPrefix)));
    UniqueFd lock = lock_of(folder);
    if (!lock && tries < 10) continue;
    if (!lock)
      return Error{ErrorKind::kDisk, "cannot lock '" + folder + "': " + std::strerror(errno)};
    remove_leftovers(fs::path(folder).parent_path());
    return ErrorFiles(std::move(folder), std::move(lock));
  }
}

ErrorFiles::ErrorFiles(ErrorFiles&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), lock_(std::move(other.lock_)) {}

ErrorFiles::~ErrorFiles() {
  if (folder_.empty()) return;
  std::error_code error;
  fs::remove_all(folder_, error);
  // What a killed launcher's last processes still held at our start.
  remove_leftovers(fs::path(folder_).parent_path());
}

Result<std::string> ErrorFiles::name_for(int attempt, int local_rank) const {
  const std::string folder =
      folder_ + "/attempt_" + std::to_string(attempt) + "/" + std::to_string(local_rank);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{ErrorKind::kDisk, "cannot make '" + folder + "': " + error.message()};
  return folder + "/error.json";
}

}  // namespace lockstep::launcher
