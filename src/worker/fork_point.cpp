#include "worker/fork_point.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <variant>

#include "base/log.h"
#include "base/process_setup.h"
#include "base/text.h"
#include "coord/channel.h"

namespace lockstep::worker {
namespace {

using coord::message::Forked;
using coord::message::ForkRequest;
using coord::message::ForkZygote;
using coord::message::ZygoteReady;
using namespace std::chrono_literals;

// Descriptors beside a fork request, in this order.
enum : std::size_t { kControl, kBoard, kStdout, kStderr, kDescriptors };

// A wait without end is fine in the zygote: it dies with the agent (parent-death signal), and the
// socket's end wakes it.
Deadline forever() { return Deadline::in(std::chrono::hours(24 * 365)); }

std::string thread_name(const std::string& id) {
  std::ifstream file("/proc/self/task/" + id + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

[[noreturn]] void end_unstarted(const std::string& why) {
  log_error("a worker cannot start: " + why);
  ::_exit(1);
}

// Nobody would reap it, nor end it with the launcher.
[[noreturn]] void end_as_nobodys(pid_t agent) {
  end_unstarted("its parent is process " + std::to_string(::getppid()) +
                ", not the launcher, process " + std::to_string(agent) +
                ", which has ended or shares its children with something that adopts orphans");
}

// In the grandchild: waits until the intermediate is gone and the agent, a child subreaper, is the
// parent.
void adopt_agent_as_parent(pid_t intermediate, pid_t agent) {
  const Deadline deadline = Deadline::in(2s);
  for (pid_t parent = ::getppid(); parent != agent; parent = ::getppid()) {
    if (parent != intermediate || deadline.passed()) end_as_nobodys(agent);
    pause(std::chrono::microseconds(20));
  }
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    end_unstarted(std::string("prctl(PR_SET_PDEATHSIG): ") + std::strerror(errno));
  if (::getppid() != agent) end_as_nobodys(agent);
}

// Everything between fork and the worker's own life. The order matters: outputs before anything can
// fail loudly.
void become_worker(const coord::Received& received, const ForkRequest& request) {
  ::setsid();
  ::dup2(received.descriptors[kStdout].get(), STDOUT_FILENO);
  ::dup2(received.descriptors[kStderr].get(), STDERR_FILENO);
  set_environment(request);
}

// The agent, which has made the socket's two ends. Not always our parent: a wrapper may be.
pid_t maker_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : ::getppid();
}

// Forks twice, so that the agent reaps the child and not the zygote. Returns true in the child.
bool fork_for_agent(int agent_socket, std::uint64_t request) {
  const pid_t agent = maker_of(agent_socket);
  const auto answer = [&](pid_t pid) {
    // The agent's death ends us; nothing else can fail here.
    (void)coord::send(agent_socket, Forked{request, pid}, Deadline::in(10s)).ok();
  };
  flush_outputs();
  const pid_t intermediate = ::fork();
  if (intermediate < 0) {
    answer(-errno);
  } else if (intermediate == 0) {
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      adopt_agent_as_parent(self, agent);
      return true;
    }
    answer(child < 0 ? -errno : child);
    ::_exit(0);
  } else {
    while (::waitpid(intermediate, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return false;
}

}  // namespace

void set_environment(const ForkRequest& request) {
  for (const auto& [name, value] : request.environment) ::setenv(name.c_str(), value.c_str(), 1);
}

Result<UniqueFd> take_descriptor(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return UniqueFd();
  const int fd = number_of<int>(text).value_or(-1);
  const bool good = fd > 2 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
  if (!good)
    return Error{
        ErrorKind::kUsage,
        std::string(variable) + "='" + text +
            "' is not an open descriptor. 'lockstep run' sets it; a wrapper between it and "
            "this program must leave descriptors open (Python's subprocess: "
            "close_fds=False)"};
  ::unsetenv(variable);
  return UniqueFd(fd);
}

Status check_single_thread(const std::string& call, const std::string& advice) {
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr)
    return Error{ErrorKind::kUnavailable,
                 std::string("opendir /proc/self/task: ") + std::strerror(errno)};
  const std::string own = std::to_string(::getpid());
  std::string others;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string id = entry->d_name;
    if (id == "." || id == ".." || id == own) continue;
    others += (others.empty() ? "" : ", ") + ("'" + thread_name(id) + "' (id " + id + ")");
  }
  ::closedir(folder);
  if (others.empty()) return {};
  return Error{ErrorKind::kUsage,
               call +
                   " forks the workers and must be called before any other thread is started, "
                   "but thread " +
                   others + " is running. " + advice};
}

Result<Birth> serve_forks(UniqueFd agent) {
  LOCKSTEP_TRY(check_single_thread(
      "lockstep::init()", "Call init() first in main(), or start with --start-method exec"));
  auto blocked = std::make_unique<SignalsBlocked>();
  // A program that adopts orphans would get the workers; a forked process does not inherit it.
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  LOCKSTEP_TRY(coord::send(agent.get(), ZygoteReady{}, Deadline::in(10s)));
  while (true) {
    auto received = coord::receive(agent.get(), forever());
    if (!received.ok()) {
      if (received.error().kind == ErrorKind::kUnavailable)
        ::_exit(0);  // the agent has no more use for us
      return std::move(received).error();
    }
    const auto* spare = std::get_if<ForkZygote>(&received->message);
    if (spare != nullptr && received->descriptors.size() == 1) {
      if (!fork_for_agent(agent.get(), spare->request)) continue;
      ::setsid();
      agent = std::move(received->descriptors[0]);
      LOCKSTEP_TRY(coord::send(agent.get(), ZygoteReady{}, Deadline::in(10s)));
      continue;
    }
    const auto* request = std::get_if<ForkRequest>(&received->message);
    if (request == nullptr || received->descriptors.size() != kDescriptors)
      return Error{
          ErrorKind::kBadData,
          "the agent sent something that is no fork request; is 'lockstep' of another version?"};
    if (!fork_for_agent(agent.get(), request->request)) continue;
    become_worker(*received, *request);
    return Birth{*request,
                 std::move(received->descriptors[kControl]),
                 std::move(received->descriptors[kBoard]),
                 {},
                 std::move(blocked)};
  }
}

Result<Birth> read_birth(UniqueFd agent) {
  LOCKSTEP_ASSIGN(coord::Received received, coord::receive(agent.get(), Deadline::in(10s)));
  const auto* request = std::get_if<ForkRequest>(&received.message);
  if (request == nullptr || received.descriptors.size() != 1)
    return Error{
        ErrorKind::kBadData,
        "the agent sent something that is no fork request; is 'lockstep' of another version?"};
  set_environment(*request);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a wrapper may be the parent, which dies with the agent
  return Birth{*request, std::move(agent), std::move(received.descriptors[0]), {}, {}};
}

}  // namespace lockstep::worker
