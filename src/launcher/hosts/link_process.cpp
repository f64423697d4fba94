#include "launcher/hosts/link_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "base/exec.h"
#include "base/processes.h"
#include "base/signal_name.h"
#include "carrier/start.h"
#include "control/sockets.h"
#include "launcher/program/beside.h"

namespace lockstep::launcher {
namespace {

Result<UniqueFd> listen(const std::optional<control::Address>& address, int port) {
  if (!address) return control::listen_everywhere(port);
  const auto place = control::Address::numeric(address->host(), port);
  if (!place)
    return Error{ErrorKind::kUsage, "cannot listen on " + address->host() + ": no such interface"};
  return control::listen_at(*place);
}

std::string text_of(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

Result<UniqueFd> listen_for_links(const std::optional<control::Address>& address, int port,
                                  bool else_free) {
  auto listener = listen(address, port);
  const bool is_taken = !listener.ok() && listener.error().kind == ErrorKind::kUnavailable;
  return is_taken && else_free ? listen(address, 0) : std::move(listener);
}

LinkProcess::LinkProcess(Loop& loop, control::Timers& timers, Events events)
    : loop_(loop), timers_(timers), events_(std::move(events)) {}

LinkProcess::~LinkProcess() {
  close();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status LinkProcess::start(const Plan& plan) {
  plan_ = plan;
  if (plan_.program.empty()) {
    LOCKSTEP_ASSIGN(plan_.program, program_beside("lockstep-link"));
  }
  UniqueFd theirs;
  LOCKSTEP_TRY(open(plan, theirs));
  const carrier::Start start{plan.board, theirs.get(),        plan.listener,
                             plan.self,  plan.limits.silence, plan.limits.ping};
  SpawnSpec spec;
  spec.file = plan_.program;
  spec.arguments = carrier::words_of(start, LOCKSTEP_VERSION);
  spec.arguments.insert(spec.arguments.begin(), "lockstep-link");
  spec.environment = environment_with({});
  spec.stdout_fd = spec.stderr_fd = plan.stderr_fd;
  spec.inherited = {plan.board, theirs.get(), plan.listener};
  const auto pid = spawn_process(spec);
  if (!pid.ok()) {
    close();
    const bool is_missing = ::access(plan_.program.c_str(), X_OK) != 0;
    return Error{pid.error().kind,
                 pid.error().message +
                     (is_missing ? "; install it beside 'lockstep', from the same build" : "")};
  }
  pid_ = *pid;
  is_said_ = !newest_.has_value();
  send();
  return {};
}

Status LinkProcess::open(const Plan& plan, UniqueFd& theirs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Error{ErrorKind::kUnavailable, "cannot start the link of host " +
                                              std::to_string(plan.self.stay.host) +
                                              ": socketpair: " + std::strerror(errno)};
  socket_.reset(ends[0]);
  theirs.reset(ends[1]);
  waits_to_send_ = false;
  Status added = loop_.add(socket_.get(), [this] { on_ready(); });
  if (!added.ok()) socket_.reset();
  return added;
}

void LinkProcess::obey(const link::Orders& orders, const std::vector<links::Other>& others) {
  newest_ = carrier::Obey{orders, others};
  is_said_ = false;
  if (socket_) send();
}

// One order at a time is on its way: a link that stands still costs no memory.
void LinkProcess::send() {
  for (;;) {
    if (out_.empty() && !std::exchange(is_said_, true)) {
      out_ = carrier::encode(*newest_);
      if (unanswered_++ == 0) await_answer();
    }
    if (out_.empty()) break;
    const ssize_t count = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // it is full; or the link has ended, which is told
    out_.erase(0, static_cast<std::size_t>(count));
  }
  if (waits_to_send_ == !out_.empty()) return;
  waits_to_send_ = !out_.empty();
  loop_.remove(socket_.get());
  const Status added = loop_.add(
      socket_.get(), [this] { on_ready(); }, waits_to_send_ ? Loop::kBoth : Loop::kReadable);
  if (!added.ok()) kill(added.error().message);
}

void LinkProcess::on_ready() {
  hear();
  if (socket_ && waits_to_send_) send();
}

// False: nothing has come.
bool LinkProcess::hear() {
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (count <= 0) {
    // Its end is told by event().
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) close();
    return false;
  }
  in_.append(bytes.data(), static_cast<std::size_t>(count));
  while (socket_) {
    const auto message = carrier::take_message(in_);
    if (!message.ok()) kill("said what is no message: " + message.error().message);
    if (!message.ok() || !*message) break;
    hear(**message);
  }
  return true;
}

void LinkProcess::await_answer() {
  answers_ = timers_.in(plan_.answer, [this] {
    while (socket_ && hear()) {  // this process may have been stopped itself
    }
    if (unanswered_ > 0) kill("has not answered for " + text_of(plan_.answer));
  });
}

void LinkProcess::hear(const carrier::Message& message) {
  if (const auto* closed = std::get_if<carrier::Closed>(&message)) {
    if (unanswered_ > 0) --unanswered_;
    unanswered_ > 0 ? await_answer() : answers_.cancel();
    events_.closed(*closed);
  } else if (const auto* working = std::get_if<carrier::Working>(&message)) {
    events_.working(*working);
  } else if (const auto* line = std::get_if<carrier::Line>(&message)) {
    events_.line(*line);
  } else {
    kill("said what only an agent says");
  }
}

void LinkProcess::close() {
  answers_.cancel();
  if (socket_) loop_.remove(socket_.get());
  socket_.reset();
  in_.clear();
  out_.clear();
  unanswered_ = 0;
}

void LinkProcess::kill(const std::string& why) {
  if (pid_ <= 0) return;
  if (why_.empty()) why_ = why;
  close();
  ::kill(pid_, SIGKILL);
}

bool LinkProcess::event(const ChildEvent& event) {
  if (pid_ <= 0 || event.pid != pid_) return false;
  switch (event.kind) {
    case ChildEvent::kStopped:
      // If this process was stopped, too, the link may go on, and the word of it be still to come.
      stopped_ = timers_.in(plan_.stop_grace, [this] {
        const auto stat = stat_of(pid_);
        if (!stat || stat->state == 'T' || stat->state == 't')
          kill("was stopped for " + text_of(plan_.stop_grace));
      });
      break;
    case ChildEvent::kContinued:
      stopped_.cancel();
      break;
    default:
      ended(event);
  }
  return true;
}

void LinkProcess::ended(const ChildEvent& event) {
  while (socket_ && hear()) {  // its last lines
  }
  close();
  stopped_.cancel();
  std::string why = "the link of this host (pid " + std::to_string(pid_) + ") ";
  if (!why_.empty())
    why += std::exchange(why_, {});
  else if (event.kind == ChildEvent::kKilled)
    why += "was ended by " + signal_name(event.status);
  else
    why += "has ended with exit code " + std::to_string(event.status);
  pid_ = -1;
  events_.gone(why);
}

}  // namespace lockstep::launcher
