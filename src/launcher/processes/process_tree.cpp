#include "launcher/processes/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/processes.h"

namespace lockstep::launcher {
namespace {

constexpr int kDeepest = 64;  // of those who have started each other; the next look finds the rest

bool is_digit(char c) { return '0' <= c && c <= '9'; }

class Path {
 public:
  explicit Path(std::string_view text) { *this += text; }
  Path& operator+=(std::string_view text) {
    for (const char c : text)
      if (size_ + 1 < text_.size()) text_[size_++] = c;
    return *this;
  }
  Path& operator+=(pid_t number) {
    std::array<char, 12> digits{};
    std::size_t first = digits.size();
    do digits[--first] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    return *this += std::string_view(&digits[first], digits.size() - first);
  }
  int open(int flags = 0) const { return ::open(text_.data(), O_RDONLY | O_CLOEXEC | flags); }

 private:
  std::array<char, 64> text_{};  // ends with 0
  std::size_t size_ = 0;
};

// Of a folder's entries those that are numbers.
template <class Visit>
void each_number_in(const Path& folder, Visit visit) {
  const int fd = folder.open(O_DIRECTORY);
  if (fd < 0) return;
  alignas(dirent64) std::array<char, 2048> bytes{};
  for (long count; (count = ::syscall(SYS_getdents64, fd, bytes.data(), bytes.size())) > 0;)
    for (long at = 0; at < count;) {
      const auto* entry = reinterpret_cast<const dirent64*>(&bytes[static_cast<std::size_t>(at)]);
      at += entry->d_reclen;
      pid_t number = 0;
      const char* c = static_cast<const char*>(entry->d_name);
      while (is_digit(*c)) number = 10 * number + (*c++ - '0');
      if (*c == '\0' && number > 0) visit(number);
    }
  ::close(fd);
}

// What /proc/PID/task/TID/children has: numbers, each with a space behind it.
template <class Visit>
void each_child(pid_t parent, pid_t thread, Visit visit) {
  const int fd = ((((Path("/proc/") += parent) += "/task/") += thread) += "/children").open();
  if (fd < 0) return;
  std::array<char, 1024> bytes{};
  pid_t number = 0;
  for (long count; (count = ::read(fd, bytes.data(), bytes.size())) > 0;)
    for (long i = 0; i < count; ++i) {
      const char c = bytes[static_cast<std::size_t>(i)];
      if (is_digit(c))
        number = 10 * number + (c - '0');
      else if (number > 0)
        visit(number), number = 0;
    }
  ::close(fd);
}

// As stat_of(), by system calls alone.
std::optional<ProcessStat> stat_by_calls(pid_t pid) {
  const int fd = ((Path("/proc/") += pid) += "/stat").open();
  if (fd < 0) return std::nullopt;
  std::array<char, 1024> bytes{};
  const long count = ::read(fd, bytes.data(), bytes.size());
  ::close(fd);
  std::string_view rest(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::size_t name_end = rest.rfind(')');  // the name may have anything in it
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return std::nullopt;
  rest.remove_prefix(name_end + 2);
  ProcessStat found{rest.front(), 0};
  constexpr int kFromStateToStart = 19;  // the third field, and the 22nd
  for (int i = 0; i < kFromStateToStart; ++i)
    rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1))
    found.start = 10 * found.start + static_cast<std::uint64_t>(rest.front() - '0');
  return found;
}

// A leader that has ended while other threads of its process go on is a zombie, too.
bool can_run(pid_t pid) {
  const auto stat = stat_by_calls(pid);
  if (!stat || (stat->state != 'Z' && stat->state != 'X')) return stat.has_value();
  int threads = 0;
  each_number_in((Path("/proc/") += pid) += "/task", [&](pid_t) { ++threads; });
  return threads > 1;
}

struct Spared {
  pid_t one;
  std::span<const KnownProcess> others;
};

void kill_below(pid_t parent, const Spared& spared, int depth) {
  if (depth == kDeepest) return;
  each_number_in((Path("/proc/") += parent) += "/task", [=, &spared](pid_t thread) {
    each_child(parent, thread, [=, &spared](pid_t child) {
      if (child == spared.one || is_among(spared.others, child) || only_cleans_up(child)) return;
      kill_below(child, spared, depth + 1);
      ::kill(child, SIGKILL);
    });
  });
}

// Byte by byte: what begins in one block may end in the next.
bool has_variable(pid_t pid, std::string_view variable) {
  const int fd = ((Path("/proc/") += pid) += "/environ").open();
  if (fd < 0) return false;  // another user's
  std::array<char, 4096> bytes{};
  std::size_t at = 0;
  bool matches = true, found = false;
  for (long count; !found && (count = ::read(fd, bytes.data(), bytes.size())) > 0;)
    for (long i = 0; i < count && !found; ++i) {
      const char c = bytes[static_cast<std::size_t>(i)];
      found = c == '\0' && matches && at == variable.size();
      matches = c == '\0' || (matches && at < variable.size() && variable[at] == c);
      at = c == '\0' ? 0 : at + 1;
    }
  ::close(fd);
  return found;
}

// The whole of /proc/PID/cgroup, by FNV-1a. A kernel without control groups: the same for all.
std::uint64_t control_group_of(pid_t pid) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const int fd = ((Path("/proc/") += pid) += "/cgroup").open();
  if (fd < 0) return hash;
  std::array<char, 1024> bytes{};
  for (long count; (count = ::read(fd, bytes.data(), bytes.size())) > 0;)
    for (long i = 0; i < count; ++i)
      hash =
          (hash ^ static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)])) * 0x100000001b3;
  ::close(fd);
  return hash;
}

bool has_mark(pid_t pid, const Mark& mark) {
  const auto stat = stat_by_calls(pid);
  return stat && stat->start >= mark.since && control_group_of(pid) == mark.control_group &&
         has_variable(pid, mark.variable);
}

}  // namespace

bool is_among(std::span<const KnownProcess> processes, pid_t pid) {
  return std::ranges::any_of(processes, [pid](const KnownProcess& known) {
    if (known.pid != pid) return false;
    const auto stat = stat_by_calls(pid);
    return stat && stat->start == known.start;
  });
}

std::vector<KnownProcess> known_children_of(pid_t pid) {
  std::vector<KnownProcess> known;
  for (const pid_t child : children_of(pid))
    if (const auto stat = stat_by_calls(child)) known.push_back({child, stat->start});
  return known;
}

bool only_cleans_up(pid_t pid) {
  constexpr std::string_view kName = "torch_shm_manag\n";  // the kernel keeps 15 bytes
  const int fd = ((Path("/proc/") += pid) += "/comm").open();
  if (fd < 0) return false;
  std::array<char, 32> name{};
  const long count = ::read(fd, name.data(), name.size());
  ::close(fd);
  return count > 0 && std::string_view(name.data(), static_cast<std::size_t>(count)) == kName;
}

void kill_descendants(pid_t root, pid_t spared, std::span<const KnownProcess> others) {
  kill_below(root, {spared, others}, 0);
}

bool signal_sessions(std::span<const std::atomic<pid_t>> leaders, int signal) {
  bool any = false;
  each_number_in(Path("/proc"), [=, &any](pid_t pid) {
    const pid_t session = ::getsid(pid);
    const bool is_theirs = session > 1 && std::ranges::any_of(leaders, [=](const auto& leader) {
                             const pid_t number = leader.load();
                             return number == session || (number == -session && !can_run(session));
                           });
    if (is_theirs && !only_cleans_up(pid) && can_run(pid)) any = ::kill(pid, signal) == 0 || any;
  });
  return any;
}

Mark mark_of_this_process(std::string variable) {
  const auto stat = stat_by_calls(::getpid());
  return {std::move(variable), stat ? stat->start : 0, control_group_of(::getpid())};
}

bool signal_marked(const Mark& mark, int signal) {
  bool any = false;
  each_number_in(Path("/proc"), [&, signal](pid_t pid) {
    const bool is_theirs = can_run(pid) && has_mark(pid, mark) && !only_cleans_up(pid);
    if (is_theirs) any = ::kill(pid, signal) == 0 || any;
  });
  return any;
}

}  // namespace lockstep::launcher
