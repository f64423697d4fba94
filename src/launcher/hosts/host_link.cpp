#include "launcher/hosts/host_link.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace lockstep::launcher {

using link::RoundMessage;
using namespace std::chrono_literals;

HostLink::HostLink(Around around) : around_(std::move(around)) {
  LinkProcess::Events events;
  events.closed = [this](const carrier::Closed& closed) {
    closed_ = closed.round;
    around_.look();
  };
  events.working = [this](const carrier::Working& working) { working_ = working.hosts; };
  events.line = [this](const carrier::Line& line) { tell(line); };
  events.gone = [this](const std::string& why) { gone(why); };
  link_ = std::make_unique<LinkProcess>(around_.loop, around_.timers, std::move(events));
}

// That another one has ended is told a moment later, if this one goes on.
void HostLink::tell(const carrier::Line& line) {
  if (!line.is_end) return log_info(for_terminal(line.text));
  ended_.push_back(for_terminal(line.text));
  if (ended_.size() > 1) return;  // the first one's moment is theirs, too
  tell_ended_ = around_.timers.in(1s, [this] {
    for (const std::string& text : std::exchange(ended_, {})) log_info(text);
  });
}

Status HostLink::listen() {
  const Meeting& meeting = around_.mesh.meeting();
  const auto at =
      meeting.on_this_machine ? control::Address::numeric("127.0.0.1", 0) : meeting.from;
  LOCKSTEP_ASSIGN(listener_, listen_for_links(at, 0, true));
  return {};
}

carrier::BoardMemory* HostLink::memory() {
  if (!memory_)
    memory_ = carrier::BoardMemory::open(around_.board().base(), coord::kBoardBytes,
                                         around_.head.coordinator().view().stay);
  if (memory_) memory_->look();
  if (memory_ && !plan_) plan_ = memory_->plan();
  return memory_.get();
}

const std::optional<link::SamePlan>& HostLink::plan() {
  if (!plan_) memory();
  return plan_;
}

std::vector<link::HostIndex> HostLink::unreached() {
  std::vector<link::HostIndex> others;
  if (!link_->runs() || memory() == nullptr) return others;
  for (const coord::HostFacts& host : facts().hosts) {
    const link::HostIndex other = host.stay.host;
    if (other != index() && host.standing != coord::Standing::kOut &&
        !link::contains(rounds_->orders().closed, other) && !link::contains(working_, other))
      others.push_back(other);
  }
  return others;
}

void HostLink::begin() {
  promise();
  take_board();
}

bool HostLink::renew_board() {
  memory_.reset();
  closed_.reset();
  // Until all are gone what comes is a host's next stay, told before the group was to start anew.
  const bool is_old = facts().group == coord::Group::kRestarting;
  const bool is_new_start =
      !is_old && std::exchange(attempt_, facts().restarts) != facts().restarts;
  if (is_new_start)
    promise();
  else
    rounds_->enter(around_.head.coordinator().view().stay);
  renews_ = link_->runs();
  renews_ ? link_->kill("was ended, for another board has taken the place of its own")
          : take_board();
  return is_new_start;
}

void HostLink::follow(std::uint64_t term) {
  term_ = term;
  if (rounds_) promise();
}

// Of a new start of the group there are no rounds yet.
void HostLink::promise() {
  const std::uint64_t term = round_term(attempt_, term_);
  const bool is_same_start = rounds_ && rounds_->promised() >> 32U == term >> 32U;
  if (!is_same_start) {
    std::vector<link::HostIndex> set;
    for (const coord::HostFacts& host : facts().hosts)
      if (host.standing != coord::Standing::kOut) set.push_back(host.stay.host);
    rounds_.emplace(around_.head.coordinator().view().stay, std::move(set));
  }
  around_.say(link::Promise{term, index(), rounds_->vote(term)});
}

// A few times in a row: then it is something that another one would meet as well.
void HostLink::gone(const std::string& why) {
  constexpr int kMostShortLives = 5;
  working_.clear();
  if (std::exchange(renews_, false)) return take_board();
  short_lives_ = since_.passed() ? 0 : short_lives_ + 1;
  if (short_lives_ >= kMostShortLives) {
    around_.head.leave(
        exit_code(ErrorKind::kUnavailable),
        why + ", " + std::to_string(short_lives_) + " times in a row within a second");
    return around_.look();
  }
  log_warning(why + "; another one takes its place");
  take_board();
}

void HostLink::take_board() {
  LinkProcess::Plan plan;
  plan.board = around_.board_fd();
  plan.listener = listener_.get();
  plan.self = {static_cast<std::uint64_t>(facts().restarts), around_.head.coordinator().view().stay,
               around_.mesh.party().incarnation};
  plan.limits.silence = around_.limit();
  since_ = Deadline::in(1s);
  if (const Status started = link_->start(plan); !started.ok())
    return around_.head.leave(exit_code(started.error().kind), started.error().message);
  order();
}

links::Cookie HostLink::cookie_of(std::size_t host) const {
  links::Cookie cookie{};
  const std::string& bytes = around_.mesh.formed().hosts[host].cookie;
  std::memcpy(cookie.data(), bytes.data(), std::min(bytes.size(), cookie.size()));
  return cookie;
}

// Each with its stay of now.
std::vector<links::Other> HostLink::others() const {
  std::vector<links::Other> all;
  const auto& hosts = around_.mesh.formed().hosts;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (h == index()) continue;
    links::Other other;
    other.party = {static_cast<std::uint64_t>(facts().restarts), facts().hosts[h].stay,
                   hosts[h].incarnation};
    other.address = control::Address::numeric(around_.mesh.address_of(h), hosts[h].link_port);
    other.cookie = cookie_of(h);
    all.push_back(other);
  }
  return all;
}

void HostLink::order() {
  ordered_ = facts();
  order_due_ = false;
  link_->obey(rounds_->orders(), others());
}

void HostLink::hear(const RoundMessage& message) {
  if (!rounds_) return;
  const auto* round = std::get_if<link::Round>(&message);
  const auto* fills = std::get_if<link::Fills>(&message);
  if ((round != nullptr && rounds_->hear(*round)) || (fills != nullptr && rounds_->hear(*fills)))
    order_due_ = true;
}

bool HostLink::go_on() {
  const auto stays_differ = [this] {
    return !std::ranges::equal(ordered_.hosts, facts().hosts, {}, &coord::HostFacts::stay,
                               &coord::HostFacts::stay);
  };
  if (order_due_ || ordered_.restarts != facts().restarts || stays_differ()) order();
  if (!closed_) return false;
  // Others do not wait for a host's workers, which are still to come, to end theirs.
  std::optional<link::BareMarks> bare;
  if (memory() == nullptr) bare.emplace(around_.board().dead());
  const link::Marks& marks = bare ? static_cast<const link::Marks&>(*bare) : *memory_;
  const link::SamePlan nothing{{}};
  if (const auto answer = rounds_->answer(marks, memory_ ? memory_->plan() : nothing, *closed_))
    around_.say(*answer);
  const auto append = rounds_->append(marks);
  if (!append) return false;
  around_.head.later([out = append->hosts](coord::Coordinator& it, std::uint64_t now) {
    return it.append(out, now);
  });
  around_.head.later([this, told = append->told](coord::Coordinator&, std::uint64_t) {
    around_.say(told);
    return coord::Actions();
  });
  return true;
}

}  // namespace lockstep::launcher
