#include "launcher/nodes/leader_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

constexpr const char* kFormat = "lockstep leader 2 %020llu %020llu %.32s\n";
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

struct Left {
  std::uint64_t run = 0;
  nodes::Attempt attempt = 0;
  std::string command;  // 32 hexadecimal digits: what SHA-256 of its words begins with
};

// As it is written, to the byte.
int format_record(const Left& left, std::array<char, 128>& text) {
  return std::snprintf(text.data(), text.size(), kFormat, static_cast<unsigned long long>(left.run),
                       static_cast<unsigned long long>(left.attempt), left.command.c_str());
}

// A part of one, digits that were cut off or another version's is none.
std::optional<Left> parse_record(const std::array<char, 128>& text) {
  unsigned long long run = 0, attempt = 0;
  std::array<char, 33> command{};
  if (std::sscanf(text.data(), "lockstep leader 2 %20llu %20llu %32[0-9a-f]", &run, &attempt,
                  command.data()) != 3)
    return std::nullopt;
  Left left{run, attempt, command.data()};
  std::array<char, 128> again{};
  format_record(left, again);
  if (again != text || attempt == 0) return std::nullopt;
  return left;
}

std::string digest_of(const std::vector<std::string>& command) {
  Sha256 all;
  for (const std::string& word : command) all.update(word + '\0');
  return all.hex().substr(0, 32);
}

std::string begins_anew(const std::string& run) {
  return run +
         ": this run begins anew, with restart count 0, L + 1 s from now, when whatever that "
         "one has begun must be over (if nothing of it is left, remove that file first)";
}

std::string goes_on(nodes::Attempt attempt, const std::string& max_restarts) {
  const std::string last = std::to_string(attempt);
  return "attempt " + last +
         " of the same command: this run goes on from there, with restart count " + last + " of " +
         max_restarts + "; to begin anew, give another --rdzv-id, or remove that file first";
}

std::string age_of(int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return "";
  return " (" + std::to_string(std::max<std::time_t>(std::time(nullptr) - info.st_mtime, 0)) +
         " s ago)";
}

}  // namespace

LeaderRecord::LeaderRecord(const std::string& leader, const std::vector<std::string>& command,
                           std::string folder)
    : folder_(std::move(folder)),
      command_(digest_of(command)),
      path_(folder_ + "/" + record_prefix() + sha256_hex(leader).substr(0, 32) +
            std::string(kRecordEnding)) {}

bool LeaderRecord::open(int flags, std::string& why) {
  struct stat info {};
  if (!file_) file_ = open_own_record(path_, flags, info, why);
  return static_cast<bool>(file_);
}

nodes::Leader::Record LeaderRecord::take(int max_restarts) {
  std::array<char, 128> text{};
  std::string why;
  if (open(O_RDWR, why)) {
    if (::pread(file_.get(), text.data(), text.size() - 1, 0) < 0) why = std::strerror(errno);
    if (const auto left = parse_record(text)) {
      const bool is_other = left->command != command_;
      const bool is_over = left->attempt > static_cast<nodes::Attempt>(max_restarts);
      const std::string most = std::to_string(max_restarts);
      log_info("a leader before this one has left '" + path_ + "'" + age_of(file_.get()) +
               ", which is of " +
               (is_other  ? begins_anew("another program or other arguments")
                : is_over ? begins_anew("a run with no restart left (--max-restarts " + most + ")")
                          : goes_on(left->attempt, most)));
      return {left->run, left->attempt, is_other || is_over};
    }
    if (why.empty()) why = "damaged, or another version's";
  }
  if (why.empty()) return {};
  log_warning("what a leader before this one has left, '" + path_ + "', cannot be read: " + why +
              "; whatever that one has begun must be over in L + 1 s, and nothing starts before "
              "(if nothing of it is left, remove that file first)");
  return {0, 0, true};
}

bool LeaderRecord::is_there() const {
  struct stat info {};
  if (::lstat(path_.c_str(), &info) != 0) return false;
  log_info(
      "a leader before this one has left '" + path_ +
      "': if another launcher leads now, nothing starts before what that one has begun must be "
      "over, L + 1 s");
  return true;
}

void LeaderRecord::keep(const nodes::Leader::Record& record) {
  std::array<char, 128> text{};
  std::string why;
  const int size = format_record({record.run, record.attempt, command_}, text);
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

void LeaderRecord::remove_what_is_left() {
  std::array<char, 128> text{};
  std::string why;
  if (!open(O_RDWR, why)) return;
  if (::pread(file_.get(), text.data(), text.size() - 1, 0) > 0)
    if (const auto left = parse_record(text); left && left->command == command_) return remove();
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
