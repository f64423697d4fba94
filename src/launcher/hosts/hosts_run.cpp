#include "launcher/hosts/hosts_run.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/seconds.h"
#include "base/text.h"
#include "launcher/output/host_name.h"
#include "star/beat.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 3'000ms;  // L
constexpr auto kSeen = 50ms;      // between two views of what the board shows
constexpr auto kWake = 20ms;      // while nobody leads

}  // namespace

HostsRun::HostsRun(Around around)
    : around_(std::move(around)),
      all_here_by_(Deadline::in(around_.options.nodes.join_timeout)),
      tell_missing_at_(Deadline::in(star::kFirstLine)),
      next_seen_(Deadline::in(0s)) {}

HostsRun::~HostsRun() = default;

std::unique_ptr<coord::Head> HostsRun::make_head(const coord::Config& config) {
  auto head = std::make_unique<HostsHead>(config);
  head_ = head.get();
  return head;
}

std::chrono::milliseconds HostsRun::limit() const {
  if (!mesh_ || !mesh_->is_formed()) return around_.options.nodes.limit.value_or(kLimit);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::nanoseconds(mesh_->formed().limit_ns));
}

quorum::Settings HostsRun::settings() const {
  quorum::Settings settings;
  settings.silence = ns(limit());
  settings.by_file = !around_.options.nodes.lock_directory.empty();
  settings.join_timeout = 3 * settings.silence;  // all have met by then
  return settings;
}

Status HostsRun::open() {
  use_all_descriptors();
  LOCKSTEP_ASSIGN(timers_, control::Timers::open(around_.loop));
  records_copy_.emplace(
      RecordsCopy::Around{*timers_, around_.records, around_.run_dir, around_.board,
                          [this](const link::RecordMessage& message) { talk_->say(message); },
                          [this](Txn next) { begin_records(next); }});
  mesh_ = std::make_unique<Mesh>(around_.loop, *timers_, around_.options, limit(), mesh_events());
  LOCKSTEP_TRY(open_tie_break());
  LOCKSTEP_TRY(mesh_->find());
  HostLink::Around link{
      around_.loop,     *timers_,      *mesh_, *head_,      [this] { return limit(); },
      around_.board_fd, around_.board, {},     around_.look};
  // To the leader.
  link.say = [this](const link::RoundMessage& message) {
    if (const Status said = talk_->tell(message); !said.ok())
      head_->leave(exit_code(said.error().kind), said.error().message);
  };
  link_ = std::make_unique<HostLink>(std::move(link));
  LOCKSTEP_TRY(link_->listen());
  LOCKSTEP_TRY(mesh_->open(link_->listener()));
  beat();
  return {};
}

Mesh::Events HostsRun::mesh_events() {
  Mesh::Events events;
  events.formed = [this] { form(); };
  events.open = [this](std::size_t host) { opened(host); };
  events.closed = [this](std::size_t host) { closed(host); };
  events.talk = [this](std::size_t host, const std::string& frame) {
    hear(host, frame);
    around_.look();
  };
  events.refused = [this](int code, const std::string& why) {
    head_->leave(code, why);
    around_.look();
  };
  return events;
}

void HostsRun::form() {
  const star::message::Formed& formed = mesh_->formed();
  coord::HostPlace place;
  place.self = static_cast<std::uint16_t>(formed.self);
  std::vector<quorum::Member> members;
  for (const auto& host : formed.hosts) {
    members.push_back({static_cast<std::uint16_t>(members.size()), host.incarnation});
    place.workers.push_back(host.workers);
  }
  place.to_run = [this](const coord::HostView& view, const coord::Report& what) {
    report(view, what);
  };
  quorum_ = std::make_unique<QuorumTalk>(
      settings(), std::move(members), mesh_->self(),
      [this](std::size_t host, const std::string& bytes) { say(host, To::kAgent, bytes); }, now());
  talk_.emplace(static_cast<link::HostIndex>(mesh_->self()), [this](const std::string& bytes) {
    if (leader_) say(*leader_, To::kLeader, bytes);
  });
  head_->form(std::move(place));
  log_info("all " + std::to_string(formed.hosts.size()) + " nodes are here; this is node " +
           std::to_string(formed.self));
  tell_who_goes_on();
  compare_directories();
  link_->begin();
  form_set();
  around_.look();
}

void HostsRun::opened(std::size_t host) {
  knocks_.erase(host);
  ended_.erase(host);
  quorum_->open(host, now());
  if (lead_) lead_->open(host);
  if (leader_ == host) talk_->open(head_->coordinator().view());
  around_.look();
}

// Its launcher may dial again.
void HostsRun::closed(std::size_t host) {
  quorum_->close(host);
  if (lead_) lead_->close(host);
  if (leader_ == host) talk_->close();
  knock_at(host);
}

void HostsRun::say(std::size_t host, To to, const std::string& bytes) {
  const std::string frame = std::string(1, static_cast<char>(to)) + bytes;
  if (is_self(host)) return hear(host, frame);
  if (const Status said = mesh_->say(host, frame); !said.ok())
    head_->leave(exit_code(said.error().kind), said.error().message);
}

void HostsRun::hear(std::size_t host, const std::string& frame) {
  const std::string bytes = frame.substr(std::min<std::size_t>(1, frame.size()));
  const char to = frame.empty() ? '\xff' : frame[0];
  if (to == static_cast<char>(To::kAgent)) {
    const auto heard = quorum_->hear(host, bytes, now());
    if (!heard.ok())
      return log_warning("node " + std::to_string(host) + ": " +
                         for_terminal(heard.error().message));
    look_who_leads();
    if (*heard) quorum_->say(host, now());
  } else if (to == static_cast<char>(To::kLeader)) {
    if (lead_) lead_->hear(host, bytes);
  } else if (leader_ == host) {
    hear_leader(bytes);
  }
}

void HostsRun::hear_leader(const std::string& bytes) {
  auto heard = talk_->hear(bytes);
  if (!heard.ok())
    return head_->leave(exit_code(ErrorKind::kBadData), for_terminal(heard.error().message));
  if (auto* word = std::get_if<coord::RunWord>(&*heard))
    head_->coordinator().note(word->pulses);
  else if (auto* round = std::get_if<link::RoundMessage>(&*heard))
    link_->hear(*round);
  else
    records_copy_->hear(std::get<link::RecordMessage>(*heard));
}

// What the board shows comes at each tick of the agent, and is said now and then.
void HostsRun::report(const coord::HostView& view, const coord::Report& report) {
  if (std::holds_alternative<coord::report::Seen>(report)) {
    if (!next_seen_.passed()) return;
    next_seen_ = Deadline::in(kSeen);
  }
  talk_->report(view, report);
}

void HostsRun::begin_records(Txn next) {
  around_.begin_records(next, clock_.time.ran + (clock_.runs ? now() - clock_at_ : 0));
  around_.look();
}

bool HostsRun::go_on() {
  if (!head_->is_formed()) return false;
  forget_own_pause();  // before anybody is found to be cut off
  bool news = follow_quorum();
  news = link_->go_on() || news;
  if (lead_) news = lead_->go_on() || news;
  ask_for_file();
  quorum_->look(now());
  if (end_if_due()) return true;
  const coord::HostView view = head_->coordinator().view();
  if (std::exchange(said_obeyed_, view.obeyed) != view.obeyed ||
      std::exchange(said_workers_, view.workers.size()) != view.workers.size())
    talk_->look(view);
  return news;
}

// Of a new start of the group, or of this host's next stay.
void HostsRun::renew_board() {
  const coord::Stay stay = head_->coordinator().view().stay;
  const bool is_new_start = link_->renew_board();
  is_new_start ? records_copy_->end() : records_copy_->begin(stay);
}

rundir::NodeOfRun HostsRun::node() const { return {mesh_->formed().run, self(), host_name()}; }

// What others have said while this agent stood still waits to be read.
void HostsRun::forget_own_pause() {
  const std::uint64_t gap = now() - beat_at_;
  if (beat_at_ == 0 || gap < ns(every() + limit() / 4)) return;
  if (lead_) lead_->forget_pause(gap);
  beat_at_ += gap;
}

std::chrono::milliseconds HostsRun::every() const {
  return star::beat(ns(limit()), around_.options.nodes.nnodes);
}

void HostsRun::beat() {
  beat_ = timers_->in(every(), [this] { beat(); });
  forget_own_pause();
  beat_at_ = now();
  if (head_->is_formed()) {
    quorum_->agent().pass(now());
    form_set();
    look_who_leads();
    if (lead_) lead_->beat();
    talk_->reaches_not(link_->unreached());
    talk_->look(head_->coordinator().view());
    quorum_->beat(now());
    tell_who_comes();
    wake();
  } else if (all_here_by_.passed()) {
    head_->leave(exit_code(ErrorKind::kUnavailable),
                 "not all nodes came within " + seconds(ns(around_.options.nodes.join_timeout)) +
                     " (--rdzv-conf join_timeout)" +
                     (mesh_->missing().empty() ? "" : "; missing: " + mesh_->missing()));
  } else if (tell_missing_at_.passed() && !mesh_->missing().empty()) {
    tell_missing_at_ = Deadline::in(star::kLineEvery);
    const Meeting& meeting = mesh_->meeting();
    log_info("waiting for " + mesh_->missing() +
             (meeting.leads ? leads_at(around_.options.nodes, meeting) : ""));
  }
  around_.look();
}

// Where nobody leads the next one is not to wait for a beat.
void HostsRun::wake() {
  if (quorum_->agent().hears_leader(now())) return wake_.cancel();
  wake_ = timers_->in(kWake, [this] {
    around_.look();
    wake();
  });
}

void HostsRun::leave() {
  beat_.cancel();
  wake_.cancel();
  if (quorum_) quorum_->beat(now());
  const std::optional<std::uint64_t> unneeded = unneeded_file();
  lead_.reset();  // the head ends before this object
  link_->end();
  mesh_->leave();
  const Deadline enough = Deadline::in(1s);
  while (!enough.passed() && !mesh_->has_left()) around_.loop.run_once(Deadline::in(10ms));
  if (tie_break_) tie_break_->leave(unneeded);
}

}  // namespace lockstep::launcher
