#include "launcher/nodes/leader_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/log.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kFormat = "lockstep leader 1 %020llu %020llu\n";
constexpr std::string_view kRecordEnding = ".leader";
constexpr int kMostNamesLookedAt = 4096;  // of a crowded /tmp: a start takes milliseconds

std::string record_prefix() { return "lockstep-" + std::to_string(::geteuid()) + "-"; }

// A name that another user has taken, a link, and what a live leader holds are left alone; `why`
// says so then. "": there is none.
UniqueFd open_own_record(const std::string& path, int flags, struct stat& info, std::string& why) {
  UniqueFd file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file && errno != ENOENT)
    why = errno == ELOOP ? "it is a link" : std::strerror(errno);
  else if (file && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)))
    why = "it is no file";
  else if (file && info.st_uid != ::geteuid())
    why = "it is another user's";
  else if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    why = "a launcher that lives has it";
  if (!why.empty()) file.reset();
  return file;
}

// As it is written, to the byte.
int format_record(const nodes::Leader::Record& record, std::array<char, 128>& text) {
  return std::snprintf(text.data(), text.size(), kFormat,
                       static_cast<unsigned long long>(record.run),
                       static_cast<unsigned long long>(record.attempt));
}

// A part of one, digits that were cut off or another version's is none.
std::optional<nodes::Leader::Record> parse_record(const std::array<char, 128>& text) {
  unsigned long long run = 0, attempt = 0;
  if (std::sscanf(text.data(), "lockstep leader 1 %20llu %20llu", &run, &attempt) != 2)
    return std::nullopt;
  const nodes::Leader::Record record{run, attempt};
  std::array<char, 128> again{};
  format_record(record, again);
  if (again != text || attempt == 0) return std::nullopt;
  return record;
}

}  // namespace

LeaderRecord::LeaderRecord(const std::string& leader, std::string folder)
    : folder_(std::move(folder)),
      path_(folder_ + "/" + record_prefix() + sha256_hex(leader).substr(0, 32) +
            std::string(kRecordEnding)) {}

bool LeaderRecord::open(int flags, std::string& why) {
  struct stat info {};
  if (!file_) file_ = open_own_record(path_, flags, info, why);
  return static_cast<bool>(file_);
}

nodes::Leader::Record LeaderRecord::take() {
  std::array<char, 128> text{};
  std::string why;
  if (open(O_RDWR, why)) {
    if (::pread(file_.get(), text.data(), text.size() - 1, 0) < 0) why = std::strerror(errno);
    if (const auto record = parse_record(text)) return *record;
    if (why.empty()) why = "damaged, or another version's";
  }
  if (why.empty()) return {};
  log_warning("what a leader before this one has left, '" + path_ + "', cannot be read: " + why +
              "; whatever that one has begun must be over in L + 1 s, and nothing starts before "
              "(if nothing of it is left, remove that file first)");
  return {0, 0, true};
}

void LeaderRecord::keep(const nodes::Leader::Record& record) {
  std::array<char, 128> text{};
  std::string why;
  const int size = format_record(record, text);
  if (!open(O_RDWR | O_CREAT, why)) {
    if (why.empty()) why = std::strerror(ENOENT);  // the folder
  } else if (const auto written =
                 ::pwrite(file_.get(), text.data(), static_cast<std::size_t>(size), 0);
             written != size || ::ftruncate(file_.get(), size) != 0) {
    why = std::strerror(written >= 0 && written < size ? ENOSPC : errno);
  }
  if (why.empty() || std::exchange(warned_, true)) return;
  log_warning("nothing can be left in " + folder_ + " for a leader after this one ('" + path_ +
              "': " + why +
              "): if this launcher is killed and started again, it may begin beside workers of a "
              "node that is cut off, and counts restarts from 0; see that " +
              folder_ + " can be written");
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

void LeaderRecord::remove_left(const std::string& folder) {
  const std::string begin = record_prefix();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) return;
  const std::time_t since = std::time(nullptr) - std::chrono::seconds(kKept).count();
  for (int i = 0; i < kMostNamesLookedAt; ++i) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (!name.starts_with(begin) || !name.ends_with(kRecordEnding)) continue;
    const std::string path = folder + "/" + entry->d_name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || info.st_mtime >= since) continue;  // no lock on those
    std::string why;
    if (const UniqueFd file = open_own_record(path, O_RDWR, info, why);
        file && info.st_mtime < since)
      ::unlink(path.c_str());
  }
}

}  // namespace lockstep::launcher
