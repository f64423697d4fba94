// The launcher of processes that were started by hand.
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/exec.h"
#include "coord/descriptors.h"
#include "worker/attach.h"
#include "worker/find_launcher.h"
#include "worker/own_command.h"

namespace lockstep::worker {
namespace {

std::vector<std::string> command(const Meeting& meeting, const std::string& launcher) {
  std::vector<std::string> words{launcher, "run", "--standalone", "--nproc-per-node",
                                 std::to_string(meeting.world_size)};
  for (std::string& word : own_command()) words.push_back(std::move(word));
  return words;
}

std::string variable(const Meeting& meeting, int listener) {
  return std::string(coord::kAttachedVariable) + "=" + std::to_string(listener) + ":" +
         std::to_string(meeting.world_size) + ":" + std::to_string(meeting.wait.count()) + ":" +
         std::to_string(meeting.port) + ":" + std::to_string(::getpid()) + ":" + meeting.host;
}

// Between fork and exec, by calls alone that any thread may leave half done. Returns errno.
int become(const ExecWords& words, const ExecWords& variables, int listener) {
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
  const ExecWords words(command(meeting, launcher)),
      variables(environment_with({variable(meeting, listener)}));
  const auto child = fork_and_execute(launcher, [&] { return become(words, variables, listener); });
  if (!child.ok())
    return Error{ErrorKind::kUnavailable, "nobody supervises the ranks: " + child.error().message};
  while (::waitpid(*child, nullptr, 0) < 0 && errno == EINTR) {  // the launcher is its child
  }
  return {};
}

}  // namespace lockstep::worker
