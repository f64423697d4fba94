#include "data/copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/processes.h"
#include "base/signals_blocked.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/write_all.h"
#include "data/folder_lock.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 64;  // folders in each other: a link may lead upwards
// Of a file under way, under the lock of the whole copy's folder.
const std::string kUnderWay = std::string(kReservedPrefix) + "copy-";

struct Item {
  std::string from, to;
  struct stat found {};
};

Error unreadable(const std::string& path) {
  return {ErrorKind::kBadData, "cannot read '" + path + "': " + std::strerror(errno)};
}
Error unwritable(const std::string& path) {
  return {ErrorKind::kDisk, "cannot write '" + path + "': " + std::strerror(errno)};
}

Result<struct stat> look(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return unreadable(path);
  if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode))
    return Error{ErrorKind::kBadData, "'" + path + "' is no file and no folder"};
  return found;
}

Status make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  return Error{ErrorKind::kDisk, "cannot make the folder '" + path + "': " + error.message()};
}

// What files under way are named by, where no lock keeps others out.
std::string name_of(pid_t pid, std::uint64_t start) {
  return std::to_string(pid) + "-" + std::to_string(start) + "-";
}

// Of a copy into a folder above or below, which has another lock. A zombie copies nothing.
bool is_of_another_copy(const std::string& name) {
  const std::string rest = name.substr(kUnderWay.size());
  const auto pid = number_of<pid_t>(rest.substr(0, std::min(rest.find('-'), rest.size())));
  if (!pid || *pid <= 0 || *pid == ::getpid()) return false;
  const auto found = stat_of(*pid);
  return found && found->state != 'Z' && rest.starts_with(name_of(*pid, found->start));
}

// What a copy that was killed has left.
Status remove_leftovers(const std::string& folder) {
  LOCKSTEP_ASSIGN(const auto names, posix_env().list(folder));
  for (const std::string& name : names)
    if (name.starts_with(kUnderWay) && !is_of_another_copy(name))
      LOCKSTEP_TRY(posix_env().remove_all(folder + "/" + name));
  return {};
}

struct Work {
  std::vector<std::string> folders;  // to be, from above
  std::vector<Item> files;
};

Status go_on(const Stopped& stopped, const std::string& where) {
  if (!stopped || !stopped()) return {};
  return Error{ErrorKind::kUnavailable, "stopped before '" + where + "' was there"};
}

// Nothing is made yet.
Status collect(const std::string& from, const std::string& to, std::size_t depth,
               const Stopped& stopped, Work& work) {
  LOCKSTEP_TRY(go_on(stopped, to));
  LOCKSTEP_ASSIGN(const struct stat found, look(from));
  if (S_ISREG(found.st_mode)) {
    work.files.push_back({from, to, found});
    return {};
  }
  if (depth > kDeepest)
    return Error{ErrorKind::kBadData, "'" + from + "' is deeper than " + std::to_string(kDeepest) +
                                          " folders; does a link in it lead upwards?"};
  work.folders.push_back(to);
  LOCKSTEP_ASSIGN(const auto names, posix_env().list(from));
  for (const std::string& name : names)
    if (!name.starts_with(kUnderWay))
      LOCKSTEP_TRY(collect(from + "/" + name, to + "/" + name, depth + 1, stopped, work));
  return {};
}

bool is_there(const Item& item) {
  struct stat there {};
  return ::stat(item.to.c_str(), &there) == 0 && there.st_size == item.found.st_size &&
         there.st_mtim.tv_sec == item.found.st_mtim.tv_sec &&
         there.st_mtim.tv_nsec == item.found.st_mtim.tv_nsec;
}

Result<std::uint64_t> copy_content(const Item& item, const std::string& temporary,
                                   std::vector<char>& piece, const Stopped& stopped) {
  const UniqueFd in(::open(item.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return unreadable(item.from);
  const UniqueFd out(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!out) return unwritable(item.to);
  std::uint64_t bytes = 0;
  for (;;) {
    LOCKSTEP_TRY(go_on(stopped, item.to));
    const ssize_t got = ::read(in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(item.from);
    if (got == 0) break;
    if (!write_all(out.get(), {piece.data(), static_cast<std::size_t>(got)}).ok())
      return unwritable(item.to);
    bytes += static_cast<std::uint64_t>(got);
  }
  const std::array<timespec, 2> times{item.found.st_atim, item.found.st_mtim};
  if (::fchmod(out.get(), item.found.st_mode & 07777) != 0 ||
      ::futimens(out.get(), times.data()) != 0)
    return unwritable(item.to);
  return bytes;
}

// `name`: of the file under way, one for each in the folder.
Result<std::uint64_t> copy_file(const Item& item, const std::string& name, std::vector<char>& piece,
                                const Stopped& stopped) {
  LOCKSTEP_ASSIGN(const std::string place, place_to_write(item.to));
  const std::string temporary = (fs::path(place).parent_path() / name).string();
  auto bytes = copy_content(item, temporary, piece, stopped);
  if (bytes.ok() && ::rename(temporary.c_str(), place.c_str()) != 0) bytes = unwritable(item.to);
  if (!bytes.ok()) ::unlink(temporary.c_str());
  return bytes;
}

class Copy {
 public:
  Copy(std::vector<Item> items, const Stopped& stopped)
      : items_(std::move(items)), stopped_(stopped) {
    const auto self = stat_of(::getpid());
    under_way_ = kUnderWay + name_of(::getpid(), self ? self->start : 0);
  }

  Result<Copied> run(unsigned threads) {
    std::vector<std::thread> others;
    const std::size_t most = std::min<std::size_t>(std::max(1U, threads), items_.size());
    try {
      const SignalsBlocked blocked;
      for (std::size_t i = 1; i < most; ++i) others.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // no more threads are to be had
    }
    work();
    for (std::thread& other : others) other.join();
    if (failure_) return *failure_;
    return copied_;
  }

 private:
  // Its bytes; nullopt: it was there.
  Result<std::optional<std::uint64_t>> bring(const Item& item, std::size_t number,
                                             std::vector<char>& piece) const {
    LOCKSTEP_TRY(go_on(stopped_, item.to));
    if (is_there(item)) return std::optional<std::uint64_t>();
    LOCKSTEP_ASSIGN(const std::uint64_t bytes,
                    copy_file(item, under_way_ + std::to_string(number), piece, stopped_));
    return std::optional(bytes);
  }

  void work() {
    std::vector<char> piece(kCopyBytes);
    for (std::size_t i = next_++; i < items_.size() && !failed_; i = next_++) {
      const auto bytes = bring(items_[i], i, piece);
      const std::lock_guard lock(mutex_);
      if (!bytes.ok()) {
        failed_ = true;
        if (!failure_) failure_ = bytes.error();
        return;
      }
      ++(*bytes ? copied_.files : copied_.kept);
      copied_.bytes += bytes->value_or(0);
    }
  }

  const std::vector<Item> items_;
  const Stopped& stopped_;
  std::string under_way_;  // with a number behind it: the name of a file under way
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Copied copied_;
  std::optional<Error> failure_;
};

Status check_apart(const std::string& from, const std::string& to) {
  std::error_code no_source, no_goal;  // a loop of links, say: whoever opens it tells
  const fs::path source = fs::weakly_canonical(from, no_source);
  const fs::path goal = fs::weakly_canonical(to, no_goal);
  const auto [rest, _] = std::mismatch(source.begin(), source.end(), goal.begin(), goal.end());
  if (no_source || no_goal || rest != source.end()) return {};
  return Error{ErrorKind::kUsage,
               "'" + to + "' is in '" + from + "': a copy of it would never end"};
}

Status sync_file_system(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::syncfs(file.get()) == 0 ? Status() : Status(unwritable(path));
}

}  // namespace

Result<Copied> copy_all(const std::string& from, const std::string& to, unsigned threads,
                        const Stopped& stopped) {
  for (const std::string& place : {from, to}) {
    if (place.empty())
      return Error{ErrorKind::kUsage, "an empty name is no file and no folder: give SRC and DST"};
    LOCKSTEP_TRY(check_local(place));
  }
  LOCKSTEP_TRY(check_apart(from, to));
  LOCKSTEP_ASSIGN(const struct stat source, look(from));
  Work work;
  LOCKSTEP_TRY(collect(from, to, 0, stopped, work));
  std::error_code error;  // a loop of links, say: make_folder() or the rename tells
  const bool to_folder = to.ends_with('/') || fs::is_directory(to, error);
  if (S_ISREG(source.st_mode) && to_folder)
    return Error{ErrorKind::kUsage, "'" + to + "' is a folder, '" + from +
                                        "' a file: give the name that it is to have there"};
  const fs::path parent = fs::path(to).parent_path();
  const std::string folder = !S_ISREG(source.st_mode) ? to : parent.empty() ? "." : parent.string();
  LOCKSTEP_TRY(make_folder(folder));
  LOCKSTEP_ASSIGN(const UniqueFd lock, lock_folder(folder, "copy"));
  if (work.folders.empty()) LOCKSTEP_TRY(remove_leftovers(folder));
  for (const std::string& each : work.folders) {
    LOCKSTEP_TRY(make_folder(each));
    LOCKSTEP_TRY(remove_leftovers(each));
  }
  LOCKSTEP_ASSIGN(const Copied copied, Copy(std::move(work.files), stopped).run(threads));
  LOCKSTEP_TRY(go_on(stopped, to));
  LOCKSTEP_TRY(sync_file_system(to));
  return copied;
}

}  // namespace lockstep::data
