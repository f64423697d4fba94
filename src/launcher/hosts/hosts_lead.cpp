#include "launcher/hosts/hosts_lead.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kRedial = 1s;  // for a connection that is closed to be made again

}  // namespace

HostsLead::HostsLead(Around around, const coord::RunState& state, std::uint64_t as_of)
    : around_(std::move(around)),
      term_(around_.quorum.agent().term()),
      cuts_(ns(around_.limit)),
      start_(state.facts.group == coord::Group::kRestarting ? -1 : state.facts.restarts) {
  around_.head.coordinator().lead(state, as_of);
  for (std::size_t h = 0; h < around_.quorum.members().size(); ++h) {
    hosts_.emplace_back(
        link::LeaderTalk(static_cast<link::HostIndex>(h),
                         [this, h](const std::string& frame) { around_.say(h, frame); }));
    const bool is_here = h == around_.mesh.self() || around_.mesh.has(h);
    if (is_here) hosts_[h].talk.open(word());
    if (!is_here) hosts_[h].back_by = Deadline::in(kRedial);
  }
  for (const quorum::Member& member : around_.quorum.members())
    if (!agent().facts().set.has(member) && !agent().facts().change.has(member))
      lose(member.host, "it was lost before the run had begun");
}

HostsLead::~HostsLead() { around_.head.coordinator().lead_no_more(); }

void HostsLead::open(std::size_t host) {
  hosts_[host].back_by.reset();
  hosts_[host].talk.open(word());
}

void HostsLead::close(std::size_t host) {
  hosts_[host].talk.close();
  hosts_[host].back_by = Deadline::in(kRedial);
}

void HostsLead::hear(std::size_t host, const std::string& frame) {
  auto heard = hosts_[host].talk.hear(frame);
  if (!heard.ok()) return doubt(host, heard.error().message);
  if (auto* round = std::get_if<link::RoundMessage>(&*heard)) return hear(host, *round);
  if (auto* records = std::get_if<link::RecordMessage>(&*heard)) return pass_on(host, *records);
  auto& word = std::get<coord::HostWord>(*heard);
  cuts_.hear(static_cast<coord::HostIndex>(host), word.unreached, now());
  later([host, word = std::move(word)](coord::RunLead& run, std::uint64_t at) {
    run.hear(host, word, at);
  });
}

// A broken launcher, or one of another version: whatever else it says may be wrong, too.
void HostsLead::doubt(std::size_t host, const std::string& what) {
  const std::string text = for_terminal(what);
  if (host == around_.mesh.self()) around_.head.leave(exit_code(ErrorKind::kInternal), text);
  hosts_[host].doubt = text;
  around_.look();
}

void HostsLead::later(std::function<void(coord::RunLead&, std::uint64_t now_ns)> what) {
  around_.head.later([what = std::move(what), leads = std::weak_ptr(leads_)](coord::Coordinator& it,
                                                                             std::uint64_t at) {
    if (!leads.expired()) what(*it.leads(), at);
    return coord::Actions();
  });
}

void HostsLead::beat() {
  for (Host& host : hosts_) host.talk.look(word());
}

void HostsLead::forget_pause(std::uint64_t gap) {
  cuts_.forget_pause(gap, now());
  for (Host& host : hosts_)
    if (host.back_by) host.back_by = Deadline::in(kRedial);
}

// Of those that are in the set, by host: why.
Why HostsLead::lost() const {
  Why lost;
  const quorum::Set& set = agent().facts().set;
  for (const quorum::Member& silent : agent().silent(now()))
    lost[silent.host] = "silent for " + std::to_string(around_.limit.count()) + " ms";
  for (const quorum::Member& member : set.members) {
    if (member == agent().self()) continue;
    const Host& host = hosts_[member.host];
    if (around_.has_ended(member.host))
      lost[member.host] = "its launcher has ended";
    else if (host.back_by && host.back_by->passed())
      lost[member.host] = "its launcher has closed its connection";
    if (!host.doubt.empty()) lost[member.host] = "it says what cannot be true: " + host.doubt;
  }
  return lost;
}

// Once there are no steps any more no link is needed. Of two either may go, where a lock file says
// so: with it the other one can go on.
Why HostsLead::cut_off() const {
  Why cut_off;
  if (facts().is_ending() && !facts().in_order) return cut_off;
  const quorum::Set& set = agent().facts().set;
  quorum::Ties ties = agent().ties();
  if (ties.by_file) ties.file = set.id;
  for (const auto& [host, other] : cuts_.going(set, ties, facts(), now()))
    cut_off[host] =
        "its link and that of node " + std::to_string(other) + " cannot reach each other";
  return cut_off;
}

// If the others may go on without them. Once: what follows is in the next state.
void HostsLead::exclude() {
  wanted_file_.reset();
  if (agent().facts().change) return;
  const auto may_go = [this](const std::set<std::size_t>& gone) {
    quorum::Members keep;
    for (const quorum::Member& member : agent().facts().set.members)
      if (!gone.contains(member.host)) keep.insert(member);
    return agent().can_decide(keep, now());
  };
  for (std::size_t host = 0; host < hosts_.size(); ++host)  // some by the run's keeper itself
    if (run().facts().hosts[host].standing == coord::Standing::kOut) excluded_.insert(host);
  const Why lost = this->lost(), cut_off = this->cut_off();
  take_back(lost, cut_off);
  const Why out = who_goes(lost, cut_off, excluded_, may_go);
  if (out.empty()) return want_file(lost, cut_off);
  for (const auto& [host, why] : out) lose(host, why);
  around_.look();
}

// Before the run's keeper decides anything, which it does once it has met all others: whoever is
// heard again by then is met, and does not stand in the way of one that is lost meanwhile.
void HostsLead::take_back(const Why& lost, const Why& cut_off) {
  if (run().has_decided()) return;
  for (const quorum::Member& member : agent().facts().set.members) {
    const std::size_t host = member.host;
    if (lost.contains(host) || cut_off.contains(host) || excluded_.erase(host) == 0) continue;
    later([host](coord::RunLead& run, std::uint64_t) { run.keep_host(host); });
  }
}

// Whoever is lost may not go. Of two hosts one may by the lock file.
void HostsLead::want_file(const Why& lost, const Why& cut_off) {
  if (!is_news(lost, excluded_) && !is_news(cut_off, excluded_)) return;
  wanted_file_ = agent().open_file();
  if (agent().is_denied_file() && !cut_off.empty())  // the other one may go on alone
    around_.head.leave(exit_code(ErrorKind::kResumable),
                       "its link and the other node's cannot reach each other, and that one has "
                       "the lock file (--tie-break)");
}

void HostsLead::lose(std::size_t host, const std::string& why) {
  if (!excluded_.insert(host).second) return;
  later([host, why](coord::RunLead& run, std::uint64_t at) { run.lose_host(host, why, at); });
}

// In one stamp with the change of the set that it names. True: it is written.
bool HostsLead::write() {
  const quorum::Facts& facts = agent().facts();
  quorum::Members stay;
  bool changes = false;
  for (const quorum::Member& member : facts.set.members) {
    const bool out = state_->facts.hosts[member.host].standing == coord::Standing::kOut;
    if (!out) stay.insert(member);
    changes = changes || (out && (!facts.change || facts.change.has(member)));
  }
  const std::string run = coord::encode(*state_);
  const bool is_written = changes ? agent().decide(stay, run, now()) : agent().write(run, now());
  if (is_written) agent().acknowledge(agent().facts().stamp, now());
  // The run's keeper has given up a host that it can do nothing without.
  if (changes && !is_written && agent().leads(now()) && !agent().facts().change)
    around_.head.leave(exit_code(ErrorKind::kResumable),
                       "without the nodes that are lost those that are left are too few to go on; "
                       "the same command on all nodes goes on from the last checkpoint");
  return is_written;
}

bool HostsLead::go_on() {
  exclude();
  const auto pulses = coord::pulses_of(run().facts());
  if (std::exchange(told_, pulses) != pulses) beat();
  if (!state_) state_ = run().write();
  if (state_ && !written_ && write()) written_ = agent().facts().stamp;
  const bool follows = follow();
  return go_on_with_rounds() || follows;
}

// What was written is in force.
bool HostsLead::follow() {
  if (!written_ || agent().in_force() < *written_) return false;
  written_.reset();
  const coord::RunState state = *std::exchange(state_, std::nullopt);
  const bool restarts = state.facts.group == coord::Group::kRestarting;
  if (!restarts && std::exchange(start_, state.facts.restarts) != state.facts.restarts)
    forget_rounds();  // the group has started anew
  coord::RunLead::Follows follows = run().in_force();
  for (const auto& [stay, of_set] : follows.take_out) to_take_out_.push_back({stay, of_set});
  to_bring_.insert(to_bring_.end(), follows.bring.begin(), follows.bring.end());
  around_.quorum.look(now());  // rounds come behind what they follow from
  around_.head.later([actions = std::move(follows.actions)](coord::Coordinator&, std::uint64_t) {
    return actions;
  });
  return true;
}

}  // namespace lockstep::launcher
