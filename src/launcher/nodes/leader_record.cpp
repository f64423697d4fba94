#include "launcher/nodes/leader_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "base/log.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kFormat = "lockstep leader 1 %020llu %020llu\n";

std::string folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK) == 0 ? runtime : "/tmp";
}

}  // namespace

LeaderRecord::LeaderRecord(const std::string& node)
    : path_(folder() + "/lockstep-" + std::to_string(::geteuid()) + "-" +
            sha256_hex(node).substr(0, 32) + ".leader") {}

nodes::Leader::Record LeaderRecord::read() const {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid())
    return {};
  std::array<char, 128> text{};
  if (::pread(file.get(), text.data(), text.size() - 1, 0) <= 0) return {};
  unsigned long long run = 0, attempt = 0;
  if (std::sscanf(text.data(), "lockstep leader 1 %20llu %20llu", &run, &attempt) != 2) return {};
  return {run, attempt};
}

// A name that another user has taken, or a link, is left alone.
bool LeaderRecord::open() {
  if (file_) return true;
  file_ = UniqueFd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (file_ && ::fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_uid == ::geteuid())
    return true;
  file_.reset();
  return false;
}

void LeaderRecord::keep(const nodes::Leader::Record& record) {
  std::array<char, 128> text{};
  const int size =
      std::snprintf(text.data(), text.size(), kFormat, static_cast<unsigned long long>(record.run),
                    static_cast<unsigned long long>(record.attempt));
  if (!open() || ::pwrite(file_.get(), text.data(), static_cast<std::size_t>(size), 0) != size)
    log_debug("'" + path_ + "' cannot be written: " + std::strerror(errno) +
              "; a leader that is started again will wait longer");
}

void LeaderRecord::remove() {
  if (!file_) return;
  ::unlink(path_.c_str());
  file_.reset();
}

}  // namespace lockstep::launcher
