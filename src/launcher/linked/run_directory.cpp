#include "launcher/linked/run_directory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "coord/channel.h"
#include "rundir/names.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kAnswerTime = 10s;

// A socket's path may have 107 bytes only; through the directory's descriptor it is always short.
sockaddr_un socket_address(int directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory,
                kControlSocket);
  return address;
}

Error socket_error(const char* call, const std::string& path) {
  return {ErrorKind::kUnavailable,
          std::string("control socket in '") + path + "': " + call + ": " + std::strerror(errno)};
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

bool has_hung_up(int socket) {
  pollfd entry{socket, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Error silent(const std::string& run_dir, int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool known =
      ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
  return {ErrorKind::kUnavailable, "the launcher in '" + run_dir + "'" +
                                       (known ? " (pid " + std::to_string(peer.pid) + ")" : "") +
                                       " does not answer within " +
                                       std::to_string(kAnswerTime.count()) + " s; is it stopped?"};
}

// Asked already or not: nothing unread is left, so that the reply outlives the connection.
void turn_away(int client, const std::string& run_dir) {
  ::shutdown(client, SHUT_RD);
  while (coord::receive(client, Deadline::in(0s)).ok()) {
  }
  const std::string text = "the launcher in '" + run_dir +
                           "' is busy: " + std::to_string(RunDirectory::kMostClients) +
                           " others are connected to its control socket; try again";
  (void)coord::send(client, coord::message::Reply{false, text, ErrorKind::kUnavailable},
                    Deadline::in(0s))
      .ok();
}

// Whoever asks while the launcher ends is cut off in the middle.
Error ended(const std::string& run_dir) {
  return {ErrorKind::kUnavailable,
          "the run in '" + run_dir + "' has just ended: its launcher answers no more questions"};
}

Error nobody_in(const std::string& run_dir) {
  if (posix_env().exists(run_dir + "/result.json"))
    return {ErrorKind::kUnavailable, "no launcher is running in '" + run_dir +
                                         "': its run has ended ('lockstep status " + run_dir +
                                         "' says how)"};
  return {ErrorKind::kUnavailable,
          "no launcher is running in '" + run_dir +
              "'; what has ended is known by its records, and "
              "a loop with DistributedDataParallel or a Python script keeps none"};
}

// connect(2) on a socket of this kind waits for ever while too many wait to be accepted.
Result<UniqueFd> connect_to(int directory, const std::string& run_dir) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = socket_address(directory);
  const Deadline deadline = Deadline::in(kAnswerTime);
  while (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                              sizeof address) != 0) {
    if (socket && errno == ECONNRESET) return ended(run_dir);
    if (socket && (errno == ENOENT || errno == ECONNREFUSED)) return nobody_in(run_dir);
    if (!socket || (errno != EAGAIN && errno != EINTR))
      return Error{ErrorKind::kUnavailable,
                   "no launcher is running in '" + run_dir + "': " + std::strerror(errno)};
    if (deadline.passed()) return silent(run_dir, socket.get());
    pause(20ms);
  }
  return socket;
}

}  // namespace

Result<std::unique_ptr<RunDirectory>> RunDirectory::open(
    std::string path, UniqueFd lock, Loop& loop, OnRequest on_request,
    std::chrono::seconds patience, const std::optional<rundir::NodeOfRun>& node) {
  std::unique_ptr<RunDirectory> directory(
      new RunDirectory(std::move(path), std::move(lock), loop, std::move(on_request), patience));
  // What is at the path by now may be another's.
  const std::string place = rundir::place_of(directory->path_, directory->lock());
  if (node) LOCKSTEP_TRY(rundir::claim_run_directory(place, *node));
  directory->is_own_ = true;
  rundir::remove_leftovers(place, node ? &*node : nullptr);
  LOCKSTEP_TRY(posix_env().make_dirs(place + "/incidents"));
  LOCKSTEP_ASSIGN(const auto names, posix_env().list(place + "/incidents"));
  for (const std::string& name : names)
    directory->earlier_incidents_ = std::max<std::uint64_t>(
        directory->earlier_incidents_, std::strtoul(name.c_str(), nullptr, 10));
  LOCKSTEP_TRY(directory->listen());
  return directory;
}

RunDirectory::~RunDirectory() {
  for (const auto& [fd, client] : clients_) loop_.remove(fd);
  if (!is_own_) return;
  door_.reset();
  rundir::remove_leftovers(
      rundir::place_of(path_, lock()));  // the socket, and what killed workers were writing
}

std::uint64_t RunDirectory::newest_checkpoint() const {
  const auto names = posix_env().list(rundir::place_of(path_, lock()) + "/checkpoints");
  std::uint64_t newest = 0;
  if (!names.ok()) return newest;
  for (const std::string& name : *names)
    newest = std::max(newest, rundir::step_of(name).value_or(0));
  return newest;
}

Status RunDirectory::listen() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket_error("socket", path_);
  const sockaddr_un address = socket_address(lock());
  const mode_t mask = ::umask(0177);  // for the owner only, from the first moment
  const int bound =
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(mask);
  if (bound != 0) return socket_error("bind", path_);
  listener_ = std::move(socket);
  if (::listen(listener_.get(), 8) != 0) return socket_error("listen", path_);
  door_.emplace(listener_.get(), loop_, [this](UniqueFd fd) { greet(std::move(fd)); });
  return door_->open();
}

void RunDirectory::greet(UniqueFd connection) {
  if (!same_user(connection.get())) return;
  auto client = std::make_shared<UniqueFd>(std::move(connection));
  if (clients_.size() >= kMostClients) drop_silent();
  if (clients_.size() >= kMostClients) return turn_away(client->get(), path_);
  if (loop_.add(client->get(), [this, client] { serve(client); }).ok())
    clients_.emplace(client->get(), Client{client, Deadline::in(patience_)});
}

void RunDirectory::drop(int fd) {
  loop_.remove(fd);
  clients_.erase(fd);
}

void RunDirectory::drop_silent() {
  std::vector<int> silent;
  for (const auto& [fd, client] : clients_)
    if (client.until.passed()) silent.push_back(fd);
  for (const int fd : silent) drop(fd);
}

void RunDirectory::serve(const std::shared_ptr<UniqueFd>& client) {
  auto question = coord::receive(client->get(), Deadline::in(0s));
  if (!question.ok()) {
    if (question.error().kind != ErrorKind::kTimedOut) drop(client->get());
    return;
  }
  // It was told that nobody answers, so nothing shall happen.
  if (has_hung_up(client->get())) return drop(client->get());
  clients_.at(client->get()).until = Deadline::in(patience_);
  // The client may be gone by the time of the answer; the shared descriptor stays open until then.
  const Answer answer = [client](const coord::message::Reply& reply) {
    if (auto sent = coord::send(client->get(), reply, Deadline::in(0s)); !sent.ok())
      log_debug(sent.error().message);
  };
  // A question's failure is its answer's: the run goes on.
  const Status asked = guarded("the question cannot be answered", ErrorKind::kInternal, [&] {
    on_request_(question->message, answer);
    return Status();
  });
  if (!asked.ok()) answer({false, asked.error().message, asked.error().kind});
}

std::function<Status()> RunDirectory::incident_writer(const coord::Incident& incident) const {
  coord::Incident numbered = incident;
  numbered.number += earlier_incidents_;
  char name[32];
  std::snprintf(name, sizeof name, "%04llu.json", static_cast<unsigned long long>(numbered.number));
  return [path = path_, lock = lock_, file = std::string(name),
          text = coord::to_json(numbered, posix_env().wall_time_s()) + "\n"]() -> Status {
    const std::string folder = rundir::place_of(path, lock->get()) + "/incidents";
    // --resume never has emptied the run directory meanwhile.
    LOCKSTEP_TRY(posix_env().make_dirs(folder));
    return write_atomically(posix_env(), folder + "/" + file, text);
  };
}

std::function<Status()> RunDirectory::stop_writer(const rundir::TimeStop& stop) const {
  return [path = path_, lock = lock_, stop] {
    return rundir::write_time_stop(posix_env(), rundir::place_of(path, lock->get()), stop);
  };
}

std::function<Status()> RunDirectory::standstill_writer(
    std::vector<rundir::Standstill> standstills) const {
  return [path = path_, lock = lock_, standstills = std::move(standstills)] {
    return rundir::write_standstills(posix_env(), rundir::place_of(path, lock->get()), standstills);
  };
}

Result<std::vector<rundir::Standstill>> RunDirectory::standstills() const {
  return rundir::read_standstills(posix_env(), rundir::place_of(path_, lock()));
}

bool has_launcher(const std::string& run_dir) {
  const UniqueFd directory(::open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!directory || !socket) return false;
  const sockaddr_un address = socket_address(directory.get());
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0 ||
         (errno != ENOENT && errno != ECONNREFUSED && errno != ECONNRESET);
}

Result<coord::message::Reply> ask_launcher(const std::string& run_dir,
                                           const coord::Message& question) {
  const UniqueFd directory(::open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory && errno == ENOENT)
    return Error{ErrorKind::kUnavailable, "there is no folder '" + run_dir + "'"};
  if (!directory && errno == ENOTDIR)
    return Error{ErrorKind::kUnavailable,
                 "'" + run_dir + "' is no folder: a run is in the folder of its --output"};
  if (!directory)
    return Error{ErrorKind::kUnavailable,
                 "no launcher is running in '" + run_dir + "': " + std::strerror(errno)};
  LOCKSTEP_ASSIGN(const UniqueFd socket, connect_to(directory.get(), run_dir));
  const Deadline deadline = Deadline::in(kAnswerTime);
  Status sent = coord::send(socket.get(), question, deadline);
  if (!sent.ok() && sent.error().kind == ErrorKind::kTimedOut) return silent(run_dir, socket.get());
  // Who is turned away has its reply before it asks.
  if (!sent.ok() && sent.error().kind != ErrorKind::kUnavailable) return sent.error();
  auto answer = coord::receive(socket.get(), deadline);
  if (!answer.ok() && answer.error().kind == ErrorKind::kTimedOut)
    return silent(run_dir, socket.get());
  if (!answer.ok() && answer.error().kind == ErrorKind::kUnavailable) return ended(run_dir);
  if (!answer.ok()) return answer.error();
  auto* reply = std::get_if<coord::message::Reply>(&answer->message);
  if (reply == nullptr)
    return Error{ErrorKind::kBadData,
                 "the launcher in '" + run_dir + "' gave no answer to this question"};
  return std::move(*reply);
}

}  // namespace lockstep::launcher
