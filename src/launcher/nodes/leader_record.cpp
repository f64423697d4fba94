#include "launcher/nodes/leader_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "base/hash.h"
#include "base/log.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kFormat = "lockstep leader 1 %020llu %020llu\n";
constexpr std::string_view kRecordEnding = ".leader";
constexpr int kMostNamesLookedAt = 4096;  // of a crowded /tmp: a start takes milliseconds

std::string record_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' && ::access(runtime, W_OK) == 0 ? runtime : "/tmp";
}

std::string record_prefix() { return "lockstep-" + std::to_string(::geteuid()) + "-"; }

// A name that another user has taken, a link, and what a live leader holds are left alone.
UniqueFd open_own_record(const std::string& path, int flags, struct stat& info) {
  UniqueFd file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return {};
  return file;
}

}  // namespace

LeaderRecord::LeaderRecord(const std::string& node)
    : path_(record_folder() + "/" + record_prefix() + sha256_hex(node).substr(0, 32) +
            std::string(kRecordEnding)) {}

bool LeaderRecord::open(int flags) {
  struct stat info {};
  if (!file_) file_ = open_own_record(path_, flags, info);
  return static_cast<bool>(file_);
}

nodes::Leader::Record LeaderRecord::take() {
  std::array<char, 128> text{};
  if (!open(O_RDWR) || ::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return {};
  unsigned long long run = 0, attempt = 0;
  if (std::sscanf(text.data(), "lockstep leader 1 %20llu %20llu", &run, &attempt) != 2) return {};
  return {run, attempt};
}

void LeaderRecord::keep(const nodes::Leader::Record& record) {
  std::array<char, 128> text{};
  const int size =
      std::snprintf(text.data(), text.size(), kFormat, static_cast<unsigned long long>(record.run),
                    static_cast<unsigned long long>(record.attempt));
  if (!open(O_RDWR | O_CREAT) ||
      ::pwrite(file_.get(), text.data(), static_cast<std::size_t>(size), 0) != size)
    log_debug("'" + path_ + "' cannot be written: " + std::strerror(errno) +
              "; a leader that is started again will wait longer");
}

void LeaderRecord::remove() {
  if (!file_) return;
  ::unlink(path_.c_str());
  file_.reset();
}

void LeaderRecord::touch() {
  constexpr std::chrono::minutes kEvery{1};
  if (!file_ || !touch_at_.passed()) return;
  ::futimens(file_.get(), nullptr);
  touch_at_ = Deadline::in(kEvery);
}

void LeaderRecord::remove_left() {
  const std::string place = record_folder(), begin = record_prefix();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(place.c_str()), ::closedir);
  if (!entries) return;
  const std::time_t since = std::time(nullptr) - std::chrono::seconds(kKept).count();
  for (int i = 0; i < kMostNamesLookedAt; ++i) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (!name.starts_with(begin) || !name.ends_with(kRecordEnding)) continue;
    const std::string path = place + "/" + entry->d_name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || info.st_mtime >= since) continue;  // no lock on those
    if (const UniqueFd file = open_own_record(path, O_RDWR, info); file && info.st_mtime < since)
      ::unlink(path.c_str());
  }
}

}  // namespace lockstep::launcher
