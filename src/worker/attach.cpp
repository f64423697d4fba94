#include "worker/attach.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <variant>

#include "coord/channel.h"
#include "coord/table.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
namespace message = coord::message;

constexpr auto kBetweenTries = 10ms;
constexpr auto kHandOverTime = 10s;

Error no_meeting(const Meeting& meeting, const char* call, int code) {
  return {ErrorKind::kUnavailable, "cannot meet the other ranks at " + meeting.address() + ": " +
                                       call + ": " + std::strerror(code)};
}

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Fits: user, address and port have 70 bytes at most, the name may have 107.
Name name_of(const Meeting& meeting) {
  const std::string text = meeting.socket_name(::geteuid());
  Name name;
  name.address.sun_family = AF_UNIX;
  std::copy(text.begin(), text.end(), name.address.sun_path + 1);  // after a zero: abstract
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

Result<UniqueFd> new_socket(const Meeting& meeting) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return no_meeting(meeting, "socket", errno);
  coord::make_room(socket.get());
  const timeval limit{10, 0};  // of connect(), where the launcher is stopped
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return socket;
}

// Any user may bind any abstract name: this one must be ours.
Status check_owner(const Meeting& meeting, int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return no_meeting(meeting, "SO_PEERCRED", errno);
  if (peer.uid == ::geteuid()) return {};
  return Error{ErrorKind::kUnavailable, "the place to meet the other ranks at, " +
                                            meeting.address() + ", is taken by another user (" +
                                            std::to_string(peer.uid) + "): use another port"};
}

// Empty: nobody is there.
Result<UniqueFd> find_agent(const Meeting& meeting) {
  LOCKSTEP_ASSIGN(UniqueFd socket, new_socket(meeting));
  const Name name = name_of(meeting);
  while (::connect(socket.get(), name.get(), name.size) != 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNREFUSED) return UniqueFd();
    return no_meeting(meeting, "connect", errno);
  }
  LOCKSTEP_TRY(check_owner(meeting, socket.get()));
  return socket;
}

// False: somebody else was faster.
Result<bool> bring_agent(const Meeting& meeting) {
  LOCKSTEP_ASSIGN(const UniqueFd socket, new_socket(meeting));
  const Name name = name_of(meeting);
  if (::bind(socket.get(), name.get(), name.size) != 0) {
    if (errno == EADDRINUSE) return false;
    return no_meeting(meeting, "bind", errno);
  }
  if (::listen(socket.get(), static_cast<int>(coord::kMaxSlots)) != 0)
    return no_meeting(meeting, "listen", errno);
  LOCKSTEP_TRY(start_agent(meeting, socket.get()));
  return true;
}

// nullopt: the launcher has closed the connection before a word: it is about to end.
Result<std::optional<Birth>> ask(const Meeting& meeting, UniqueFd agent, Deadline deadline) {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self) return no_meeting(meeting, "pidfd_open", errno);
  const int descriptors[] = {self.get(), STDOUT_FILENO, STDERR_FILENO};
  const auto sent = coord::send(
      agent.get(), message::Attach{coord::kProtocolVersion, Rank(meeting.rank), meeting.world_size},
      Deadline::in(kHandOverTime), descriptors);
  if (!sent.ok() && sent.error().kind != ErrorKind::kUnavailable) return sent.error();
  auto answer = coord::receive(agent.get(), deadline);
  if (!answer.ok()) {
    if (answer.error().kind == ErrorKind::kUnavailable) return std::optional<Birth>();
    if (answer.error().kind != ErrorKind::kTimedOut) return std::move(answer).error();
    return Error{ErrorKind::kUnavailable, "the launcher of the ranks at " + meeting.address() +
                                              " does not answer; is it stopped?"};
  }
  if (const auto* refusal = std::get_if<message::Refuse>(&answer->message))
    return Error{refusal->kind, refusal->message};
  const auto* request = std::get_if<message::ForkRequest>(&answer->message);
  if (request == nullptr || answer->descriptors.size() != 2)
    return Error{ErrorKind::kBadData,
                 "the launcher's answer is none; is 'lockstep' of another version?"};
  set_environment(*request);
  return std::optional(Birth{*request, std::move(agent), std::move(answer->descriptors[0]),
                             std::move(answer->descriptors[1]), nullptr});
}

}  // namespace

Result<Birth> attach(const Meeting& meeting) {
  const Deadline deadline = Deadline::in(meeting.wait);
  for (bool started = false; !deadline.passed(); pause(kBetweenTries)) {
    LOCKSTEP_ASSIGN(UniqueFd agent, find_agent(meeting));
    if (!agent && !started) {
      LOCKSTEP_ASSIGN(started, bring_agent(meeting));
      if (!started) continue;  // it is about to listen
      LOCKSTEP_ASSIGN(agent, find_agent(meeting));
    }
    if (agent) {
      LOCKSTEP_ASSIGN(std::optional<Birth> birth, ask(meeting, std::move(agent), deadline));
      if (birth) return *std::move(birth);
    }
    if (started)
      return Error{ErrorKind::kUnavailable,
                   "the launcher that this process has started for the ranks at " +
                       meeting.address() + " has ended; its error is above"};
  }
  return Error{ErrorKind::kUnavailable,
               "no launcher took this process in at " + meeting.address() + " in time"};
}

}  // namespace lockstep::worker
