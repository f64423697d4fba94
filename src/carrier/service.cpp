#include "carrier/service.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace lockstep::carrier {
namespace {

using namespace std::chrono_literals;

// Between two wake-ups by the bell.
constexpr auto kRest = 200us;

}  // namespace

Service::Service(Plan plan, Loop loop, UniqueFd agent, UniqueFd listener)
    : plan_(std::move(plan)),
      loop_(std::move(loop)),
      agent_(std::move(agent)),
      listener_(std::move(listener)) {}

Service::~Service() {
  if (agent_) loop_.remove(agent_.get());
}

Result<std::unique_ptr<Service>> Service::open(Plan plan, UniqueFd agent, UniqueFd listener) {
  auto loop = Loop::open();
  if (!loop.ok()) return loop.error();
  std::unique_ptr<Service> made(
      new Service(std::move(plan), *std::move(loop), std::move(agent), std::move(listener)));
  LOCKSTEP_TRY(made->begin());
  return made;
}

Status Service::begin() {
  auto timers = control::Timers::open(loop_);
  if (!timers.ok()) return timers.error();
  timers_ = *std::move(timers);
  auto bell = BellWatch::start(loop_, plan_.bell, kRest, [this] { rung(); });
  if (!bell.ok()) return bell.error();
  bell_ = *std::move(bell);
  ::fcntl(agent_.get(), F_SETFL, ::fcntl(agent_.get(), F_GETFL) | O_NONBLOCK);
  LOCKSTEP_TRY(loop_.add(agent_.get(), [this] { on_agent(); }));
  return look_for_board();
}

Status Service::look_for_board() {
  const auto board = plan_.board();
  if (!board) return {};
  carrier_ = std::make_unique<Carrier>(board->plan, board->memory, plan_.self.stay,
                                       [this](const Line& line) { say(line); });
  auto links = links::make_tcp_links(loop_, *timers_, std::move(listener_), plan_.self,
                                     plan_.limits, carrier_->events());
  if (!links.ok()) return links.error();
  carrier_->use(*std::move(links));
  if (obeyed_) carrier_->obey(obeyed_->orders, obeyed_->others);
  obeyed_.reset();
  return {};
}

void Service::rung() {
  if (carrier_) return carrier_->rung();
  status_ = look_for_board();
  over_ = over_ || !status_.ok();
}

Status Service::run() {
  while (!over_) {
    loop_.run_once(Deadline::in(60s));
    if (!carrier_) continue;
    carrier_->attend();
    tell_working();
  }
  return status_;
}

void Service::on_agent() {
  std::array<char, 16 * 1024> bytes;
  const ssize_t count = ::recv(agent_.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  over_ = count <= 0;
  if (over_) return;
  in_.append(bytes.data(), static_cast<std::size_t>(count));
  status_ = hear();
  over_ = !status_.ok();
}

Status Service::hear() {
  for (;;) {
    auto message = take_message(in_);
    if (!message.ok()) return message.error();
    if (!*message) return {};
    auto* obey = std::get_if<Obey>(&**message);
    if (obey == nullptr) return Error{ErrorKind::kBadData, "the agent says what a link says"};
    const Closed closed{obey->orders.round};
    if (carrier_)
      carrier_->obey(obey->orders, obey->others);
    else
      obeyed_ = std::move(*obey);
    say(closed);
  }
}

// The agent reads at once, and what is said is little; an agent that does not is stopped, and this
// process waits with it.
void Service::say(const Message& message) {
  std::string bytes = encode(message);
  for (std::string_view left = bytes; !left.empty() && !over_;) {
    const ssize_t count = ::send(agent_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count >= 0)
      left.remove_prefix(static_cast<std::size_t>(count));
    else if (errno == EAGAIN)
      pause(1ms);
    else if (errno != EINTR)
      over_ = true;
  }
}

void Service::tell_working() {
  std::vector<HostIndex> working = carrier_->working();
  if (working == told_working_) return;
  told_working_ = working;
  say(Working{std::move(working)});
}

}  // namespace lockstep::carrier
