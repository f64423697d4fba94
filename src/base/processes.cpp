#include "base/processes.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;  // a process ends, or is another user's
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    found.push_back(entry->path());
  return found;
}

bool has(const fs::path& process, const std::function<bool(const OpenFile&)>& is_it) {
  for (const fs::path& fd : entries_of(process / "fd"))
    if (is_it({fd.string(), (process / "fdinfo" / fd.filename()).string()})) return true;
  return false;
}

}  // namespace

std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");  // the name may have anything in it
  if (name_end == std::string::npos) return std::nullopt;
  constexpr int kFieldsBetween = 18;  // the state is the third field, the start the 22nd
  std::istringstream fields(line.substr(name_end + 2));
  ProcessStat found;
  fields >> found.state;
  std::string field;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> field;
  if (!(fields >> found.start)) return std::nullopt;
  return found;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const fs::path& thread : entries_of("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(thread / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

std::vector<pid_t> processes_with(const std::function<bool(const OpenFile&)>& is_it,
                                  std::size_t most) {
  std::vector<pid_t> found;
  for (const fs::path& process : entries_of("/proc")) {
    const auto pid = number_of<pid_t>(process.filename().string());
    if (!pid || !has(process, is_it)) continue;
    found.push_back(*pid);
    if (found.size() == most) break;
  }
  return found;
}

namespace {

bool has_lock(const OpenFile& file, const struct stat& locked) {
  struct stat found {};
  if (::stat(file.link.c_str(), &found) != 0 || found.st_ino != locked.st_ino ||
      found.st_dev != locked.st_dev)
    return false;
  std::ifstream info(file.info);
  for (std::string line; std::getline(info, line);)
    if (line.find("FLOCK") != std::string::npos) return true;
  return false;
}

}  // namespace

std::string lock_holder(const std::string& path) {
  struct stat locked {};
  if (::stat(path.c_str(), &locked) != 0) return "";
  const auto holders =
      processes_with([&](const OpenFile& file) { return has_lock(file, locked); }, 1);
  return holders.empty() ? "" : " (process " + std::to_string(holders.front()) + ")";
}

namespace {

struct PortUser {
  std::string inode, user;
};

// proc(5), /proc/net/tcp: number, address:port, other end, state, queues, timer, retries, user,
// timeout, inode; numbers in hexadecimal but the last three.
std::optional<PortUser> user_in(const std::string& table, int port, bool listens) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, address, state, other;
    PortUser found;
    fields >> number >> address >> other >> state >> other >> other >> other >> found.user >>
        other >> found.inode;
    const std::size_t colon = address.rfind(':');
    constexpr const char* kListens = "0A";
    constexpr const char* kNobodysAnyMore = "0";  // TIME_WAIT
    if (fields && (state == kListens) == listens && found.inode != kNobodysAnyMore &&
        colon != std::string::npos && std::strtol(address.c_str() + colon + 1, nullptr, 16) == port)
      return found;
  }
  return std::nullopt;
}

std::optional<PortUser> user_of(int port, bool listens) {
  auto user = user_in("/proc/net/tcp", port, listens);
  return user ? user : user_in("/proc/net/tcp6", port, listens);
}

std::string command_of(pid_t pid) {
  constexpr std::size_t kMost = 100;
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string command, word;
  while (command.size() <= kMost && std::getline(file, word, '\0'))
    command += (command.empty() ? "" : " ") + word;
  if (command.size() > kMost) command.replace(kMost, std::string::npos, "...");
  return for_terminal(command);
}

// `how`: stands behind its name.
std::string described(const PortUser& user, const std::string& how) {
  const std::string link = "socket:[" + user.inode + "]";
  const auto pids = processes_with(
      [&](const OpenFile& file) {
        std::error_code error;  // closed meanwhile
        return fs::read_symlink(file.link, error) == link;
      },
      1);
  if (pids.empty()) return " (a process of user " + user.user + how + ")";
  const std::string command = command_of(pids.front());
  return " (process " + std::to_string(pids.front()) + (command.empty() ? "" : ": " + command) +
         how + ")";
}

}  // namespace

std::string port_listener(int port) {
  const auto user = user_of(port, true);
  return user ? described(*user, "") : "";
}

std::string port_holder(int port) {
  if (const auto listener = user_of(port, true)) return described(*listener, "");
  const auto user = user_of(port, false);
  return user ? described(*user, ", with a connection from that port") : "";
}

}  // namespace lockstep
