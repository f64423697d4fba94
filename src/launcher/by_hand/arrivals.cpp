#include "launcher/by_hand/arrivals.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <variant>

#include "base/errors.h"
#include "base/log.h"
#include "coord/channel.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace message = coord::message;

// Beside Attach, in this order.
enum : std::size_t { kProcess, kOut, kErr, kDescriptors };

// Of the dead that have held the place, until they are gone.
constexpr auto kPatience = 5s;
// Who connects wishes at once.
constexpr auto kSpeechTime = 10s;

// Of whoever has connected, by the kernel's word.
Result<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) return peer;
  return Error{ErrorKind::kUnavailable, std::string("SO_PEERCRED: ") + std::strerror(errno)};
}

// The process that a pidfd is of; -1: it is gone, or the descriptor is something else.
pid_t pid_of(int process) {
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(process));
  std::string word;
  while (file >> word) {
    pid_t pid = -1;
    if (word == "Pid:" && file >> pid) return pid;
  }
  return -1;
}

void refuse(const UniqueFd& connection, const Error& error) {
  // Its room is empty: nothing else was sent there.
  (void)coord::send(connection.get(), message::Refuse{error.kind, error.message}, Deadline::in(0s))
      .ok();
}

}  // namespace

Result<std::unique_ptr<Arrivals>> Arrivals::open(const Attached& attached, Loop& loop, Seat seat) {
  std::unique_ptr<Arrivals> arrivals(new Arrivals(attached, loop, std::move(seat)));
  LOCKSTEP_TRY(arrivals->door_.open());
  return arrivals;
}

Arrivals::~Arrivals() {
  for (const auto& [fd, unheard] : unheard_) loop_.remove(fd);
}

void Arrivals::greet(UniqueFd connection) {
  const auto peer = peer_of(connection.get());
  if (!peer.ok() || peer->uid != ::geteuid()) return;  // others are not even answered
  coord::make_room(connection.get());
  const int fd = connection.get();
  if (!loop_.add(fd, [this, fd] { hear(fd); }).ok()) return;
  unheard_.emplace(fd, Unheard{std::move(connection), Deadline::in(kSpeechTime)});
}

void Arrivals::hear(int fd) {
  auto node = unheard_.extract(fd);
  loop_.remove(fd);
  auto arrival = examine(std::move(node.mapped().connection));
  if (!arrival.ok())
    return log_debug("somebody came and was sent away: " + arrival.error().message);
  if (!settle(*arrival)) waiting_.push_back(std::move(*arrival));
}

Result<Arrival> Arrivals::examine(UniqueFd connection) {
  const auto no = [&](Error error) {
    refuse(connection, error);
    return error;
  };
  auto received = coord::receive(connection.get(), Deadline::in(0s));
  if (!received.ok()) return no(std::move(received).error());
  const auto* wish = std::get_if<message::Attach>(&received->message);
  if (wish == nullptr || received->descriptors.size() != kDescriptors)
    return no(
        {ErrorKind::kBadData, "that is no wish to attach; is the program of another version?"});
  if (auto checked = check(*wish); !checked.ok()) return no(checked.error());
  LOCKSTEP_ASSIGN(const ucred peer, peer_of(connection.get()));
  auto& descriptors = received->descriptors;
  // What it has sent is its own process, and it is still there: its number is not another's.
  if (pid_of(descriptors[kProcess].get()) != peer.pid)
    return no(
        misuse("the process that connected is not the one that wants to attach, or is in "
               "another PID namespace than the launcher"));
  return Arrival{std::move(connection),
                 std::move(descriptors[kProcess]),
                 std::move(descriptors[kOut]),
                 std::move(descriptors[kErr]),
                 peer.pid,
                 wish->rank,
                 Deadline::in(kPatience)};
}

Status Arrivals::check(const message::Attach& wish) const {
  if (wish.version != coord::kProtocolVersion)
    return coord::wrong_version(wish.version, coord::kProtocolVersion);
  const std::string ours = "the run at " + attached_.address() + " is one of " +
                           std::to_string(attached_.workers) + " ranks";
  if (wish.world_size != attached_.workers)
    return misuse(ours + ", and this process was started as one of " +
                  std::to_string(wish.world_size) +
                  ": give all of them the same number, or this one another port");
  if (wish.rank.value() < 0 || wish.rank.value() >= attached_.workers)
    return misuse(ours + ", 0 to " + std::to_string(attached_.workers - 1) +
                  ", and this process was started as rank " + std::to_string(wish.rank.value()));
  return {};
}

// False: it has to wait.
bool Arrivals::settle(Arrival& arrival) {
  auto seated = seat_(arrival);
  if (seated.ok() && *seated) return true;
  if (seated.ok() && !arrival.until.passed()) return false;
  refuse(arrival.control,
         seated.ok() ? Error{ErrorKind::kUnavailable,
                             "rank " + std::to_string(arrival.rank.value()) + " of the run at " +
                                 attached_.address() + " has no place now; try again"}
                     : seated.error());
  return true;
}

void Arrivals::look() {
  door_.look();
  std::erase_if(unheard_, [&](const auto& entry) {
    const bool passed = entry.second.until.passed();
    if (passed) loop_.remove(entry.first);
    return passed;
  });
  for (auto it = waiting_.begin(); it != waiting_.end();)
    it = settle(*it) ? waiting_.erase(it) : std::next(it);
}

}  // namespace lockstep::launcher
