// Key files: what is checked before one is believed, and how a new one is made.
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/env.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "control/key.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kMostFileBytes = 4096;

Error no_file(const std::string& what) {
  return {ErrorKind::kDisk, what + ": " + std::strerror(errno)};
}

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777u));
  return text.data();
}

Status check_owner_and_mode(int fd, const std::string& path, const std::string& source) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return misuse(source + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return misuse(source + " is no regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return misuse(source + " belongs to another user (uid " + std::to_string(info.st_uid) +
                  "), who knows the key then; make a file of your own ('lockstep key')");
  // Root has given it to a group that we are in: so a secret is mounted for a pod with an fsGroup.
  const bool roots = info.st_uid == 0 && ::geteuid() != 0;
  if ((info.st_mode & (roots ? 037u : 077u)) != 0)
    return misuse(source + " can be read or written by others (mode " + octal(info.st_mode) +
                  "), and whoever has the key can take part in the run: chmod 600 '" + path +
                  "' (a Kubernetes secret: defaultMode: 0400 or 0440, or the key in " +
                  kKeyVariable + ")");
  if (info.st_size > static_cast<off_t>(kMostFileBytes))
    return misuse(source + " has " + std::to_string(info.st_size) + " bytes; a key's file has " +
                  std::to_string(kMostFileBytes) + " at most");
  return {};
}

// 0600 whatever the umask is, and on storage.
Status fill(const UniqueFd& file, const std::string& path, const RunKey& key) {
  const std::string line = key.text() + "\n";
  if (::fchmod(file.get(), 0600) != 0 ||
      ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(file.get()) != 0)
    return no_file("write '" + path + "'");
  return {};
}

// Under its name unless that is taken. Not all file systems have links.
Status name_it(const std::string& temporary, const std::string& path) {
  if (::link(temporary.c_str(), path.c_str()) == 0) return {};
  if (errno != EEXIST &&
      ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
    return {};
  if (errno == EEXIST)
    return misuse("'" + path +
                  "' is there already, and a key is never overwritten: runs may use it; remove it "
                  "first, or name another file");
  return no_file("make '" + path + "'");
}

}  // namespace

Result<RunKey> read_key_file(const std::string& path, const std::string& source) {
  // A pipe without a writer would be waited for.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return misuse(source + ": " + std::strerror(errno));
  LOCKSTEP_TRY(check_owner_and_mode(file.get(), path, source));
  std::array<char, kMostFileBytes + 1> text{};
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes < 0) return misuse(source + ": " + std::strerror(errno));
  auto key = RunKey::of({text.data(), static_cast<std::size_t>(bytes)}, source);
  OPENSSL_cleanse(text.data(), text.size());
  return key;
}

Status write_key_file(const std::string& path, const RunKey& key) {
  LOCKSTEP_ASSIGN(const std::string whole, absolute_path(path));
  const std::filesystem::path name(whole);
  const std::string folder = name.parent_path().string();
  LOCKSTEP_TRY(posix_env().make_dirs(std::filesystem::path(folder).parent_path().string()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return no_file("make '" + folder + "'");
  // No two launchers on any two machines have the same name for it.
  std::string temporary = folder + "/" + std::string(kReservedPrefix) + "key-XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return no_file("make a file in '" + folder + "'");
  Status made = fill(file, temporary, key);
  if (made.ok()) made = name_it(temporary, whole);
  ::unlink(temporary.c_str());
  if (made.ok()) made = posix_env().sync_dir(folder);
  return made;
}

}  // namespace lockstep::control
