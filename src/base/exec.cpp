#include "base/exec.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX

namespace lockstep {
namespace {

Error refused(const char* call) {
  return {ErrorKind::kUnavailable,
          std::string("cannot start a process: ") + call + ": " + std::strerror(errno)};
}

}  // namespace

ExecWords::ExecWords(std::vector<std::string> words) : words_(std::move(words)) {
  pointers_.reserve(words_.size() + 1);
  for (std::string& word : words_) pointers_.push_back(word.data());
  pointers_.push_back(nullptr);
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes,
                                          const std::vector<std::string>& removed) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  const auto replaced = [&](std::string_view name) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& c) { return name_of(c) == name; }) ||
           std::find(removed.begin(), removed.end(), name) != removed.end();
  };
  std::vector<std::string> result = changes;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!replaced(name_of(*entry))) result.emplace_back(*entry);
  return result;
}

void reset_signals(const sigset_t& blocked) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0) continue;
    // To set the default again would discard a SIGCHLD that is pending.
    const bool stays = now.sa_handler == SIG_DFL || (signal == SIGHUP && is_ignored(SIGHUP));
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    if (!stays) ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  reset_signals(none);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

Result<pid_t> fork_and_execute(const std::string& file, const std::function<int()>& become) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return refused("pipe2");
  const UniqueFd readable(ends[0]);
  UniqueFd writable(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return refused("fork");
  if (pid == 0) {
    const int code = become();
    [[maybe_unused]] const auto written = ::write(writable.get(), &code, sizeof code);
    ::_exit(127);
  }
  writable.reset();
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(readable.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (n == 0) return pid;  // closed by execve
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return Error{ErrorKind::kUsage, "cannot start '" + file + "': " + std::strerror(code)};
}

}  // namespace lockstep
