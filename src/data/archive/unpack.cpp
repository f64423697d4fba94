// unpack_once() of lockstep/data.h.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "base/processes.h"
#include "base/told_wait.h"
#include "base/unique_fd.h"
#include "data/archive/extract.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

// In the folder that was unpacked: of which archive it is.
constexpr const char* kOrigin = "/.lockstep-unpacked";

// The name without its endings; empty: not an archive's.
std::string stem_of(const std::string& archive) {
  const std::string name = std::filesystem::path(archive).filename().string();
  for (const std::string_view ending : {".tar.gz", ".tgz", ".tar"})
    if (name.size() > ending.size() && name.ends_with(ending))
      return name.substr(0, name.size() - ending.size());
  return "";
}

Result<std::string> origin_of(const std::string& archive) {
  struct stat found {};
  if (::stat(archive.c_str(), &found) != 0 || !S_ISREG(found.st_mode))
    return Error{ErrorKind::kBadData, "there is no archive '" + archive + "'"};
  return std::to_string(found.st_size) + " bytes, changed " + std::to_string(found.st_mtim.tv_sec) +
         "." + std::to_string(found.st_mtim.tv_nsec) + "\n";
}

// True: it is there. kUsage: something else is.
Result<bool> is_unpacked(const std::string& target, const std::string& origin) {
  if (!posix_env().exists(target)) return false;
  const auto found = posix_env().read(target + kOrigin, 4096);
  if (found.ok() && *found == origin) return true;
  return Error{
      ErrorKind::kUsage,
      "'" + target +
          (found.ok() ? "' was unpacked from another archive of this name, or from this one"
                        " before it changed"
                      : "' is there, but was not unpacked by this program") +
          ": remove it, or unpack elsewhere"};
}

// An exclusive lock on the folder under that name; nothing: another process has it.
Result<UniqueFd> lock(const std::string& folder) {
  UniqueFd held(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat mine {
  }, named{};
  if (!held) return UniqueFd();
  if (::flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return UniqueFd();
    return Error{ErrorKind::kDisk, "cannot lock '" + folder + "': " + std::strerror(errno) +
                                       "; unpack on a disk of this machine, or by hand"};
  }
  if (::fstat(held.get(), &mine) != 0 || ::stat(folder.c_str(), &named) != 0 ||
      mine.st_ino != named.st_ino)
    return UniqueFd();  // it has just been renamed
  return held;
}

Status publish(const std::string& archive, const std::string& origin, const std::string& work,
               const std::string& target, int work_fd) {
  LOCKSTEP_ASSIGN(const auto left, posix_env().list(work));  // by one that was killed
  for (const std::string& name : left) LOCKSTEP_TRY(posix_env().remove_all(work + "/" + name));
  log_info("unpacking '" + archive + "' into '" + target + "'");
  Status status = extract(posix_env(), archive, work, Durable::kLater);
  if (status.ok()) status = write_atomically(posix_env(), work + kOrigin, origin);
  if (status.ok() && ::syncfs(work_fd) != 0)
    status = Error{ErrorKind::kDisk, "cannot write '" + work + "' to storage"};
  if (status.ok()) status = posix_env().rename(work, target);
  if (!status.ok()) static_cast<void>(posix_env().remove_all(work).ok());
  return status;
}

}  // namespace

Result<std::string> unpack_once(const std::string& archive, const std::string& folder) {
  const std::string stem = stem_of(archive);
  if (stem.empty())
    return Error{ErrorKind::kUsage, "'" + archive +
                                        "' is not read as an archive: .tar, .tar.gz and .tgz are; "
                                        "unpack others by hand and give the folder"};
  LOCKSTEP_ASSIGN(const std::string origin, origin_of(archive));
  const std::string target = folder + "/" + stem;
  const std::string work = folder + "/" + reserved_name(stem);
  ToldWait wait(
      [&] { return "another process" + lock_holder(work) + " that unpacks '" + archive + "'"; });
  for (;; wait.pause()) {
    LOCKSTEP_ASSIGN(const bool there, is_unpacked(target, origin));
    if (there) return target;
    LOCKSTEP_TRY(posix_env().make_dirs(work));
    LOCKSTEP_ASSIGN(const UniqueFd held, lock(work));
    if (held) {
      LOCKSTEP_ASSIGN(const bool meanwhile, is_unpacked(target, origin));
      if (!meanwhile) LOCKSTEP_TRY(publish(archive, origin, work, target, held.get()));
      if (meanwhile) LOCKSTEP_TRY(posix_env().remove_all(work));
      return target;
    }
  }
}

}  // namespace lockstep::data
