// Rounds, which take hosts out of the tables and let them come, as their leader has them; and who
// has the records that a host lacks that comes back.
#include <algorithm>
#include <utility>
#include <variant>

#include "base/log.h"
#include "launcher/hosts/hosts_lead.h"

namespace lockstep::launcher {

using link::RoundMessage;

namespace {

// Far more than what the leader may not have heard of yet.
constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 20;

}  // namespace

void HostsLead::forget_rounds() {
  keeper_.reset();
  to_take_out_.clear();
  going_.clear();
  to_bring_.clear();
  coming_.clear();
  filled_ = told_end_ = true;
}

void HostsLead::hear(std::size_t host, const RoundMessage& message) {
  if (const auto* promise = std::get_if<link::Promise>(&message)) {
    hosts_[host].promise = *promise;
  } else if (const auto* answer = std::get_if<link::Answer>(&message)) {
    const std::uint64_t lowest = answer->have.lowest, committed = run().committed();
    if (lowest > committed + kMostAhead)
      return doubt(host, "its board is in transaction " + std::to_string(lowest) +
                             ", and the run is in " + std::to_string(committed));
    if (keeper_ && keeper_->hear(*answer)) any_table_ = any_table_ || answer->has_table();
  } else if (const auto* appended = std::get_if<link::Appended>(&message)) {
    if (keeper_) keeper_->hear(*appended);
  }
  around_.look();
}

// Who was lost before the group's new start answers no round; who was since then, one takes out.
bool HostsLead::is_of_set(const coord::HostFacts& host) const {
  return host.standing != coord::Standing::kOut ||
         std::ranges::find(to_take_out_, host.stay, &TakenOut::stay) != to_take_out_.end();
}

// Once all that stay have promised it: then no round of an older leader goes on, and whom the
// newest of them names is known. False: not yet.
bool HostsLead::begin_rounds() {
  const auto& plan = around_.link.plan();
  if (!plan) return false;
  const std::uint64_t term = round_term(facts().restarts, term_);
  std::vector<coord::Stay> stays;
  std::vector<link::Round> newest;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const coord::HostFacts& host = facts().hosts[h];
    if (is_of_set(host)) stays.push_back(host.stay);
    if (host.standing == coord::Standing::kOut) continue;
    if (!hosts_[h].promise || hosts_[h].promise->term != term) return false;
    newest.push_back(hosts_[h].promise->newest);
  }
  const bool is_first =
      std::ranges::all_of(newest, [](const link::Round& round) { return round.stamp == Stamp{}; });
  if (is_first) {
    keeper_.emplace(*plan, term, std::move(stays));
  } else {
    keeper_.emplace(*plan, term, std::move(stays), newest);
    tell_round();
  }
  return true;
}

bool HostsLead::still_comes(coord::Stay stay) const {
  const coord::HostFacts& host = facts().hosts[stay.host];
  return host.stay == stay && host.standing == coord::Standing::kForming;
}

// True: the head has news.
bool HostsLead::go_on_with_rounds() {
  // Who leaves in order finishes a step first, and may wait there for a host that is lost.
  const bool steps = facts().group == coord::Group::kRunning || facts().in_order;
  if (!steps || !run().may_begin_rounds(facts()) || (!keeper_ && !begin_rounds())) return false;
  const bool begins = !to_take_out_.empty();
  if (const auto* board = begins || !to_bring_.empty() ? around_.link.memory() : nullptr)
    keeper_->know(*board);
  for (const TakenOut& out : std::exchange(to_take_out_, {})) {
    out.of_set ? keeper_->lose_host(out.stay) : keeper_->lose_workers(out.stay);
    going_.emplace_back(out.stay, out.of_set);
  }
  if (begins) tell_round();
  std::erase_if(to_bring_, [this](coord::Stay stay) { return !still_comes(stay); });
  // Once its members wait for room for their lines, all others wait for them.
  std::erase_if(to_bring_, [this](coord::Stay stay) {
    if (hosts_[stay.host].has_records != stay) return false;
    keeper_->join(stay);
    coming_.push_back(stay);
    tell_round();
    return true;
  });
  if (!filled_ && keeper_->is_answered()) deal_fills();
  if (told_end_ || !filled_ || !keeper_->round().out.empty()) return false;
  told_end_ = true;
  if (going_.empty()) return false;
  later([out = std::exchange(going_, {}), any = any_table_](coord::RunLead& run, std::uint64_t at) {
    run.taken_out(out, any, at);
  });
  return true;
}

// Whoever comes all know of by now.
void HostsLead::deal_fills() {
  filled_ = true;
  for (const link::Fills& fills : keeper_->fills()) tell(fills.host, fills);
  if (coming_.empty()) return;
  later([stays = std::exchange(coming_, {})](coord::RunLead& run, std::uint64_t at) {
    run.have_come(stays, at);
  });
}

// A new round: to all that stay.
void HostsLead::tell_round() {
  filled_ = told_end_ = any_table_ = false;
  const link::Round& round = keeper_->round();
  for (const link::HostIndex host : round.set) tell(host, round);
}

void HostsLead::tell(link::HostIndex host, const RoundMessage& message) {
  if (const Status told = hosts_[host].talk.tell(message); !told.ok())
    around_.head.leave(exit_code(told.error().kind), told.error().message);
}

// Each in its turn: also one that is on its way back may alone have what another one lacks.
std::optional<std::size_t> HostsLead::source_for(std::size_t host) const {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const std::size_t one = (source_ + i) % hosts_.size();
    if (one != host && facts().hosts[one].standing != coord::Standing::kOut) return one;
  }
  return std::nullopt;
}

void HostsLead::pass_on(std::size_t from, const link::RecordMessage& message) {
  if (const auto* want = std::get_if<link::WantRecords>(&message)) {
    if (want->near) hosts_[from].has_records = want->who;
    const auto source = source_for(want->who.host);
    if (source) hosts_[*source].talk.say(*want);
    source_ = source.value_or(0) + 1;
    return;
  }
  const auto& piece = std::get<link::RecordsPiece>(message);
  if (piece.of.who.host < hosts_.size()) hosts_[piece.of.who.host].talk.say(piece);
}

}  // namespace lockstep::launcher
