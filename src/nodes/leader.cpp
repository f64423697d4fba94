#include "nodes/leader.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "lockstep/status.h"

namespace lockstep::nodes {
namespace {

std::string seconds(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

}  // namespace

Leader::Leader(const Rules& rules, Row own, std::uint64_t run, const Record& before,
               std::uint64_t now)
    : rules_(rules),
      own_(std::move(own)),
      run_(run),
      before_(before),
      waits_since_(now),
      seats_(static_cast<std::size_t>(rules.nodes)) {}

void Leader::heard(Link link, const NodeWord& word, std::uint64_t now) {
  Node& node = links_[link];
  node.word = word;
  node.heard_at = now;
  if (!node.refusal.empty()) return;
  if (node.rank < 0) seat(link, node, now);
  if (node.rank >= 0) note(seats_[static_cast<std::size_t>(node.rank)], word, now);
  decide(now);
}

void Leader::closed(Link link, std::uint64_t now) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  const int rank = found->second.rank;
  links_.erase(found);
  if (rank < 0) return;
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  if (seat.link != link) return;
  seat.link.reset();
  seat.closed_at = now;
  set(seat.clear, false, clear_);
}

// A rank for whoever has none yet; whoever must wait for one tells it again with its next word.
void Leader::seat(Link link, Node& node, std::uint64_t now) {
  const Row& row = node.word.row;
  const auto refuse = [&](int code, std::string why) {
    node.refusal = std::move(why);
    node.refusal_code = code;
    ++version_;
  };
  if (earlier_.contains(row.incarnation))
    return refuse(exit_code(ErrorKind::kUnavailable), "another agent has taken this node's rank");
  if (node.word.run != 0 && node.word.run != run_) {
    if (attempt_ != 0 || run_is_older_)
      return refuse(exit_code(ErrorKind::kUnavailable), "the endpoint serves another run now");
    run_ = node.word.run;
    run_is_older_ = true;
  }
  if (phase_ == Phase::kForming) adopt(node.word, now);
  const std::optional<int> given = !row.rank && link == kOwnLink ? std::optional<int>(0) : row.rank;
  if (!given) {
    if (const int rank = vacant_for(row, now); rank >= 0) sit(rank, link, node, now);
    return;
  }
  if (*given < 0 || *given >= rules_.nodes)
    return refuse(exit_code(ErrorKind::kUsage), "node rank " + std::to_string(*given) +
                                                    " is not below --nnodes " +
                                                    std::to_string(rules_.nodes));
  Seat& seat = seats_[static_cast<std::size_t>(*given)];
  if (!seat.taken || seat.row.incarnation == row.incarnation || is_vacant(seat, row, now))
    return sit(*given, link, node, now);
  if (proves_dead(seat, node.word)) {
    lose(seat, "was started again", now);
    return sit(*given, link, node, now);
  }
  if (seat.link)
    refuse(exit_code(ErrorKind::kUsage), "node rank " + std::to_string(*given) + " is that of " +
                                             seat.row.address + ", which is alive; this one is " +
                                             row.address);
}

// Nothing of an earlier agent lives on its machine, and this one would have been one to find.
bool Leader::proves_dead(const Seat& seat, const NodeWord& word) {
  return seat.alone && word.alone && seat.row.machine == word.row.machine &&
         seat.row.incarnation != word.row.incarnation;
}

bool Leader::is_vacant(const Seat& seat, const Row& row, std::uint64_t now) const {
  if (!seat.taken) return true;
  if (!seat.lost) return false;
  return seat.row.machine == row.machine || now >= seat.heard_at + 3 * rules_.limit;
}

// -1: none yet. Its address's; else any, once as many wait as ranks are vacant.
int Leader::vacant_for(const Row& row, std::uint64_t now) const {
  int any = -1, vacant = 0;
  for (const Seat& seat : seats_) {
    if (seat.taken && seat.row.incarnation == row.incarnation) return rank_of(seat);
    if (!is_vacant(seat, row, now)) continue;
    if (seat.taken && seat.row.address == row.address) return rank_of(seat);
    if (any < 0) any = rank_of(seat);
    ++vacant;
  }
  const auto waiting = std::count_if(links_.begin(), links_.end(), [](const auto& entry) {
    return entry.second.rank < 0 && entry.second.refusal.empty();
  });
  return waiting >= vacant ? any : -1;
}

void Leader::sit(int rank, Link link, Node& node, std::uint64_t now) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  const Row before = seat.row;
  const bool same = seat.taken && before.incarnation == node.word.row.incarnation;
  if (seat.taken && !same) earlier_.insert(before.incarnation);
  if (proves_dead(seat, node.word)) seat.not_before = 0;
  if (!same) {
    seat.echoed = 0;
    seat.since = now;
  }
  if (seat.link && *seat.link != link) links_.erase(*seat.link);  // of a connection made again
  seat.taken = true;
  seat.lost = false;
  seat.row = node.word.row;
  seat.alone = false;
  seat.led_from.clear();
  seat.link = link;
  node.rank = rank;
  ++version_;
}

bool Leader::was_led_elsewhere(const NodeWord& word) const {
  return !word.led_from.empty() && word.led_from != own_.machine;
}

void Leader::set(bool& flag, bool to, int& count) {
  count += static_cast<int>(to) - static_cast<int>(flag);
  flag = to;
}

void Leader::note(Seat& seat, const NodeWord& word, std::uint64_t now) {
  seat.heard_at = now;
  seat.alone = word.alone;
  if (was_led_elsewhere(word) && word.led_from != std::exchange(seat.led_from, word.led_from)) {
    led_before_ = true;
    heard_of_it_at_ = now;
    if (phase_ == Phase::kRunning)
      end_attempt({exit_code(ErrorKind::kUnavailable), "another agent has led the run meanwhile"},
                  now);
  }
  const Stamp echo = word.leader == own_.incarnation ? word.echo : 0;
  seat.echoed = std::max(seat.echoed, echo);
  adopt(word, now);
  const bool clear = word.alive == 0 && echo >= ended_at_;
  // The one that was taken for lost says itself what lives.
  if (clear && seat.lost_one == seat.row.incarnation) seat.not_before = 0;
  set(seat.clear, clear, clear_);
  set(seat.ended, attempt_ != 0 && word.ended == attempt_, ended_);
  if (word.signal != 0 && (phase_ == Phase::kForming || phase_ == Phase::kRunning)) {
    signal_ = word.signal;
    phase_ = Phase::kStopping;
    nothing_may_live(now);
  }
  if (phase_ == Phase::kRunning && rank_of(seat) == 0 && !store_ && word.store &&
      word.store->attempt == attempt_) {
    store_ = word.store;
    ++version_;
  }
  if (phase_ == Phase::kRunning && word.failure && word.failure->attempt == attempt_) {
    const Failure& failure = *word.failure;
    const Final otherwise{failure.code, name(seat) + ": " + failure.text};
    failure.final ? finish(otherwise) : end_attempt(otherwise, now);
  }
}

// What it knows of leaders before this one.
void Leader::adopt(const NodeWord& word, std::uint64_t now) {
  if (word.final && !final_) finish(*word.final);
  if (word.told <= attempt_) return;
  attempt_ = std::max(word.told, before_.run == run_ ? before_.attempt : 0);
  led_before_ = true;
  heard_of_it_at_ = now;
  nothing_may_live(now);
  // The leader that is gone is a lost node.
  if (phase_ == Phase::kForming || phase_ == Phase::kRunning)
    end_attempt({exit_code(ErrorKind::kUnavailable), "the agent of the endpoint was lost"}, now);
}

void Leader::lose(Seat& seat, const std::string& why, std::uint64_t now) {
  if (seat.link) links_.erase(*seat.link);
  seat.link.reset();
  seat.lost = true;
  // Of one that had the rank before it, and never was clear, the wait goes on.
  seat.lost_one = seat.not_before == 0 ? seat.row.incarnation : seat.lost_one;
  seat.not_before = seat.heard_at + rules_.limit + rules_.grace;
  set(seat.clear, false, clear_);
  if (phase_ == Phase::kRunning)
    end_attempt({exit_code(ErrorKind::kUnavailable), name(seat) + " " + why}, now);
}

// Once for each attempt, whatever else dies of the same.
void Leader::end_attempt(Final otherwise, std::uint64_t now) {
  if (attempt_ > static_cast<Attempt>(rules_.max_restarts)) return finish(std::move(otherwise));
  why_ = std::move(otherwise.text);
  phase_ = Phase::kForming;
  waits_since_ = now;
  nothing_may_live(now);
}

void Leader::nothing_may_live(std::uint64_t now) {
  ended_at_ = stamp(now);
  for (Seat& seat : seats_) set(seat.clear, false, clear_);
  ++version_;
}

void Leader::finish(Final final) {
  if (final_) return;
  final_ = std::move(final);
  phase_ = Phase::kFinal;
  ++version_;
}

void Leader::decide(std::uint64_t now) {
  if (phase_ == Phase::kRunning && ended_ == rules_.nodes) finish({0, ""});
  if (phase_ == Phase::kForming && clear_ == rules_.nodes && now >= may_begin_at()) begin(now);
  if (phase_ == Phase::kStopping && std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
        return !seat.link || seat.clear;
      }))
    finish({128 + signal_, "stopped by signal " + std::to_string(signal_)});
  if (phase_ == Phase::kFinal && !over_ && all_know()) {
    over_ = true;
    ++version_;
  }
}

std::uint64_t Leader::may_begin_at() const {
  std::uint64_t at = 0;
  for (const Seat& seat : seats_) at = std::max(at, seat.not_before);
  if (!led_before_) return at;
  // Who had a rank before this leader came is not known to it. Whoever was in the last attempt of
  // all says itself what lives; for others, and where the last leader was elsewhere, the fence is
  // waited for.
  for (const Seat& seat : seats_) {
    const NodeWord& word = links_.at(*seat.link).word;
    const bool known = *seat.link == kOwnLink
                           ? before_.run == run_ && before_.attempt == attempt_ && word.alone
                           : word.ran == attempt_ && !was_led_elsewhere(word);
    const std::uint64_t since = std::max(heard_of_it_at_, seat.since);
    if (!known) at = std::max(at, since + rules_.limit + rules_.grace);
  }
  return at;
}

void Leader::begin(std::uint64_t now) {
  phase_ = Phase::kRunning;
  led_before_ = false;
  ++attempt_;
  ended_at_ = stamp(now);
  store_.reset();
  world_ = 0;
  std::map<std::string, std::uint32_t> of_role;
  for (Seat& seat : seats_) {
    seat.base_rank = std::exchange(world_, world_ + seat.row.workers);
    std::uint32_t& role = of_role[seat.row.role];
    seat.role_base = std::exchange(role, role + seat.row.workers);
    set(seat.clear, false, clear_);
    set(seat.ended, false, ended_);
  }
  for (Seat& seat : seats_) seat.role_world = of_role[seat.row.role];
  ++version_;
}

bool Leader::all_know() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& entry) { return entry.second.word.final.has_value(); }) &&
         std::all_of(seats_.begin(), seats_.end(),
                     [](const Seat& seat) { return !seat.taken || seat.lost || seat.link; });
}

void Leader::tick(std::uint64_t now) {
  for (Seat& seat : seats_) {
    if (!seat.taken || seat.lost || seat.link == kOwnLink) continue;
    if (now >= seat.heard_at + rules_.limit)
      lose(seat, "was silent for " + seconds(rules_.limit), now);
    else if (!seat.link && now >= seat.closed_at + rules_.redial)
      lose(seat, "has closed its connection", now);
  }
  std::erase_if(links_, [&](const auto& entry) {
    return entry.second.rank < 0 && now >= entry.second.heard_at + rules_.limit;
  });
  if (phase_ == Phase::kForming && now >= waits_since_ + rules_.join_timeout)
    finish(
        {exit_code(ErrorKind::kUnavailable),
         "not all nodes were there within " + seconds(rules_.join_timeout) + ": " + missing(now)});
  decide(now);
}

std::uint64_t Leader::age(std::uint64_t now) const {
  Stamp oldest = now;
  for (const Seat& seat : seats_)
    if (seat.link != kOwnLink) oldest = std::min(oldest, seat.echoed);
  return now - oldest;
}

Stamp Leader::stamp(std::uint64_t now) { return last_stamp_ = std::max(last_stamp_ + 1, now); }

LeaderWord Leader::word_for(Link link, std::uint64_t now) {
  const auto found = links_.find(link);
  LeaderWord word;
  word.incarnation = own_.incarnation;
  word.machine = own_.machine;
  word.run = run_;
  word.attempt = attempt_;
  word.runs = phase_ == Phase::kRunning;
  word.store = store_;
  word.why = why_;
  word.signal = signal_;
  word.final = final_;
  word.over = over_;
  word.limit = rules_.limit;
  word.age = age(now);
  word.sent = stamp(now);
  if (found == links_.end()) return word;
  const Node& node = found->second;
  word.rank = node.rank;
  word.refusal = node.refusal;
  word.refusal_code = node.refusal_code;
  word.echo = node.word.sent;
  word.world = world_;
  if (node.rank < 0) return word;
  const Seat& seat = seats_[static_cast<std::size_t>(node.rank)];
  word.base_rank = seat.base_rank;
  word.role_base = seat.role_base;
  word.role_world = seat.role_world;
  return word;
}

std::string Leader::name(const Seat& seat) const {
  return "node " + std::to_string(rank_of(seat)) +
         (seat.taken ? " (" + seat.row.address + ")" : "");
}

std::string Leader::missing(std::uint64_t now) const {
  std::string text;
  for (const Seat& seat : seats_) {
    if (seat.link) continue;
    text +=
        (text.empty() ? "" : ", ") + std::string("node ") + std::to_string(rank_of(seat)) +
        (seat.taken ? " (" + seat.row.address + ", silent for " + seconds(now - seat.heard_at) + ")"
                    : " (never seen)");
  }
  return text.empty() ? "workers of the last attempt" : text;
}

}  // namespace lockstep::nodes
