#include "launcher/hosts/lock_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"
#include "base/write_all.h"

namespace lockstep::launcher {
namespace {

std::string hex(std::uint64_t id) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(id));
  return text.data();
}

// What does not pass by itself is the user's to mend.
Error failed(const std::string& path, const std::string& what, int error) {
  const bool stays = error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM ||
                     error == EROFS || error == ENAMETOOLONG || error == ELOOP;
  return {stays ? ErrorKind::kUsage : ErrorKind::kUnavailable,
          "'" + path + "': " + what + ": " + std::strerror(error)};
}

// Whether both are names of one file. Not by its number of names: who keeps copies of a disk as
// hard links, or joins equal files, makes more of them.
Result<bool> are_one(const std::string& path, const std::string& other) {
  struct stat one {
  }, two{};
  if (::lstat(path.c_str(), &one) != 0) return failed(path, "cannot be looked at", errno);
  if (::lstat(other.c_str(), &two) != 0) return failed(other, "cannot be looked at", errno);
  return one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

Result<bool> is_there(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return failed(path, "cannot be looked at", errno);
}

}  // namespace

LockDirectory::LockDirectory(std::string path, std::uint64_t self, std::string who)
    : path_(std::move(path)), self_(self), who_(std::move(who)) {}

std::string LockDirectory::node_file(std::uint64_t node) const {
  return in("lockstep-node-" + hex(node));
}
std::string LockDirectory::lock_file(std::uint64_t set) const {
  return in("lockstep-set-" + hex(set));
}
std::string LockDirectory::claim_file(std::uint64_t set) const {
  return lock_file(set) + "-" + hex(self_);
}

Status LockDirectory::make(const std::string& path) const {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return failed(path, "cannot be made", errno);
  (void)write_all(file.get(), who_ + "\n");  // on a full disk its name is enough
  return {};
}

Status LockDirectory::enter() {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0)
    return failed(path_, "it has to be a directory that all nodes share", errno);
  if (!S_ISDIR(info.st_mode))
    return Error{ErrorKind::kUsage,
                 "'" + path_ + "' is no directory; it has to be one that all nodes share"};
  entered_ = true;
  Status made = make(node_file(self_));
  if (made.ok()) made = try_links();
  if (!made.ok()) leave();
  return made;
}

Status LockDirectory::try_links() const {
  const std::string from = node_file(self_), to = from + "-link";
  if (::link(from.c_str(), to.c_str()) != 0)
    return failed(to, "cannot be made a hard link, as lock files are; give another directory",
                  errno);
  const auto is_one = are_one(from, to);
  ::unlink(to.c_str());
  if (is_one.ok() && !*is_one)
    return Error{ErrorKind::kUsage, "'" + path_ +
                                        "': by its file system two names of one file cannot be "
                                        "known, as a lock file's are; give another directory"};
  return is_one;
}

Result<bool> LockDirectory::sees(std::uint64_t other) const { return is_there(node_file(other)); }

Result<bool> LockDirectory::claim(std::uint64_t set) {
  LOCKSTEP_ASSIGN(const bool is_here, is_there(node_file(self_)));
  if (!is_here)  // what was mounted there is not, say
    return Error{ErrorKind::kUnavailable,
                 "'" + path_ + "' is not the directory any more that it was at the start: '" +
                     node_file(self_) + "' is missing"};
  const std::string own = claim_file(set), lock = lock_file(set);
  claimed_ = set;
  LOCKSTEP_TRY(make(own));
  if (::link(own.c_str(), lock.c_str()) == 0) return true;
  const int error = errno;
  if (error != EEXIST) return failed(lock, "cannot be made", error);
  return are_one(own, lock);
}

void LockDirectory::remove(std::uint64_t set) const { ::unlink(lock_file(set).c_str()); }

void LockDirectory::leave() {
  if (entered_) ::unlink(node_file(self_).c_str());
  if (claimed_ != 0) ::unlink(claim_file(claimed_).c_str());
  entered_ = false;
}

}  // namespace lockstep::launcher
