// The launcher of processes that were started by hand.
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "coord/descriptors.h"
#include "worker/attach.h"
#include "worker/find_launcher.h"
#include "worker/own_command.h"

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX

namespace lockstep::worker {
namespace {

// What execve() wants, made before the fork: after it a program with threads may do little.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

std::vector<std::string> command(const Meeting& meeting, const std::string& launcher) {
  std::vector<std::string> words{launcher, "run", "--standalone", "--nproc-per-node",
                                 std::to_string(meeting.world_size)};
  for (std::string& word : own_command()) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> environment(const Meeting& meeting, int listener) {
  const std::string name = std::string(coord::kAttachedVariable) + "=";
  std::vector<std::string> entries{name + std::to_string(listener) + ":" +
                                   std::to_string(meeting.world_size) + ":" +
                                   std::to_string(meeting.wait.count()) + ":" +
                                   std::to_string(meeting.port) + ":" + meeting.host};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with(name)) entries.emplace_back(*entry);
  return entries;
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Between fork and exec, by calls alone that any thread may leave half done. Returns errno.
int become(const Words& words, const Words& variables, int listener) {
  ::setsid();
  const pid_t pid = ::fork();  // so that it is nobody's child, and no terminal's
  if (pid < 0) return errno;
  if (pid > 0) ::_exit(0);
  ::setsid();
  reset_signals();
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return errno;
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what the program has open is not for the launcher
  ::fcntl(listener, F_SETFD, 0);
  ::execve(words.get()[0], words.get(), variables.get());
  return errno;
}

}  // namespace

Status start_agent(const Meeting& meeting, int listener) {
  LOCKSTEP_ASSIGN(const std::string launcher, find_launcher("lockstep::init()"));
  const Words words(command(meeting, launcher)), variables(environment(meeting, listener));
  const auto refused = [&](const char* call, int code) {
    return Error{ErrorKind::kUnavailable, "cannot start '" + launcher +
                                              "', which is to supervise " + "the ranks: " + call +
                                              ": " + std::strerror(code)};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return refused("pipe2", errno);
  const UniqueFd readable(ends[0]);
  UniqueFd writable(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return refused("fork", errno);
  if (pid == 0) {
    const int code = become(words, variables, listener);
    [[maybe_unused]] const auto written = ::write(writable.get(), &code, sizeof code);
    ::_exit(1);
  }
  writable.reset();
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(readable.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (n > 0) return refused("execve", code);
  return {};
}

}  // namespace lockstep::worker
