#include "programs/watched_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/deadline.h"
#include "base/unique_fd.h"

namespace lockstep::bench {

void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

WatchedRun::WatchedRun(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const UniqueFd out(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!out) fail(log + ": " + std::strerror(errno));
  started_ns_ = monotonic_ns();
  launcher_ = fork();
  if (launcher_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out.get(), 1);
    dup2(out.get(), 2);
    execvp(words[0], words.data());
    _exit(127);
  }
  if (launcher_ < 0) fail(std::string("fork: ") + std::strerror(errno));
}

WatchedRun::~WatchedRun() {
  if (board_.base() != nullptr) munmap(board_.base(), coord::fixed_bytes());
  if (ended()) return;
  kill(launcher_, SIGTERM);
  wait();
}

bool WatchedRun::find_board() {
  const std::string folder = "/proc/" + std::to_string(launcher_) + "/fd/";
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return false;
  std::string found;
  while (const dirent* entry = readdir(directory)) {
    char target[64] = {};
    if (readlink((folder + entry->d_name).c_str(), target, sizeof target - 1) > 0 &&
        std::strncmp(target, "/memfd:lockstep ", 16) == 0)
      found = folder + entry->d_name;
  }
  closedir(directory);
  const UniqueFd fd(found.empty() ? -1 : open(found.c_str(), O_RDWR | O_CLOEXEC));
  // The launcher makes the file, then gives it its length.
  if (!fd || lseek(fd.get(), 0, SEEK_END) < static_cast<off_t>(coord::fixed_bytes())) return false;
  void* memory =
      mmap(nullptr, coord::fixed_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) fail(std::string("mmap of the board: ") + std::strerror(errno));
  board_ = coord::Board(memory, {});
  return true;
}

std::optional<int> WatchedRun::ended() {
  int status = 0;
  if (!code_ && waitpid(launcher_, &status, WNOHANG) == launcher_)
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

int WatchedRun::wait() {
  while (!ended()) pause(std::chrono::microseconds(1000));
  return *code_;
}

std::optional<coord::Table> WatchedRun::newest_table() const {
  std::optional<coord::Table> newest;
  for (const coord::TableCell& cell : board_.header().table) {
    const std::uint64_t mark = cell.mark.load();
    coord::Table table;
    if (mark != 0 && coord::read_table(cell, Txn(mark - 1), table) &&
        (!newest || newest->txn < table.txn))
      newest = table;
  }
  return newest;
}

std::uint64_t WatchedRun::dead_count() const { return board_.header().dead_count.load(); }

WorkerUid WatchedRun::dead(std::uint64_t index) const {
  return WorkerUid(board_.header().dead_uid[index].load());
}

std::vector<pid_t> WatchedRun::workers() const {
  const std::string id = std::to_string(launcher_);
  std::ifstream children("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
  if (!pids.empty()) pids.erase(pids.begin());
  return pids;
}

Busy WatchedRun::busy(const coord::WorkerSlot& slot) {
  for (;;) {
    const std::uint64_t progress = slot.progress.load();
    const std::uint64_t sum = slot.busy_ns.load(), since = slot.busy_since_ns.load();
    const std::uint64_t now = monotonic_ns();
    if (slot.busy_ns.load() != sum || slot.busy_since_ns.load() != since ||
        slot.progress.load() != progress)
      continue;  // it has just changed phase
    return {now, sum + (since != 0 && now > since ? now - since : 0)};
  }
}

}  // namespace lockstep::bench
