#include "nodes/leader.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/no_restart.h"
#include "base/seconds.h"
#include "lockstep/status.h"

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kWaitTold = 5'000'000'000;  // that nodes are missing

}  // namespace

// It has Final, and its workers are gone: until then the leader serves them. Or it is none of us.
bool Leader::is_done(const Node& node) {
  return (node.word.final && node.word.alive == 0) || !node.refusal.empty();
}

Leader::Leader(const Rules& rules, Row own, std::uint64_t run, const Record& before,
               std::uint64_t now)
    : rules_(rules),
      own_(std::move(own)),
      run_(run),
      before_(before),
      waits_since_(now),
      ranks_(rules.nodes, {rules.limit, rules.redial}) {
  // Nobody who comes may know of it.
  if (before.attempt == 0 && !before.begins_anew) return;
  led_before_ = true;
  heard_of_it_at_ = now;
  // What is begun after the last restart is another run.
  if (before.begins_anew || before.attempt > static_cast<Attempt>(rules.max_restarts)) return;
  run_ = before.run;
  follow(before.attempt, now);
}

void Leader::heard(Link link, const NodeWord& word, std::uint64_t now) {
  look_at_clock(now);
  const auto [entry, is_new] = links_.try_emplace(link);
  Node& node = entry->second;
  if (word.sent < node.word.sent) return;  // overtaken
  done_ -= static_cast<std::size_t>(is_done(node));
  node.word = word;
  done_ += static_cast<std::size_t>(is_done(node));
  node.heard_at = now;
  if (is_new) node.since = now;
  if (is_new) silent_.set(link, now + rules_.limit);
  if (!node.refusal.empty()) return;
  if (is_new && link != kOwnLink && word.signal != 0 && word.run == 0)
    return refuse_stopped(link, node);
  if (node.rank < 0) give_rank(link, node, now);
  if (node.rank >= 0)
    note(node.rank, word, now);
  else if (word.signal != 0 && (signal_ != 0 || is_member(link)))
    note_signal(word.row.host + " (" + word.row.address + ")", word, now);
  else if (word.signal != 0 && node.refusal.empty())
    refuse_stopped(link, node);
  assign_waiting(now);
  decide(now);
}

void Leader::closed(Link link, std::uint64_t now) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  const int rank = found->second.rank;
  forget(link);
  if (rank >= 0 && ranks_.at(rank).link == link) ranks_.closed(rank, now);
}

void Leader::forget(Link link) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  done_ -= static_cast<std::size_t>(is_done(found->second));
  waits_no_more(link);
  silent_.drop(link);
  links_.erase(found);
}

bool Leader::was_led_elsewhere(const NodeWord& word) const {
  return !word.led_from.empty() && word.led_from != own_.machine;
}

void Leader::note(int rank, const NodeWord& word, std::uint64_t now) {
  RankState& state = ranks_.of(rank);
  const std::string led_from = was_led_elsewhere(word) ? word.led_from : "";
  const bool is_led_from = led_from.empty() || led_from == state.led_from;
  if (!is_led_from || word.has_lock != state.has_lock || word.ran != state.ran) begins_at_.reset();
  state.has_lock = word.has_lock;
  state.ran = word.ran;
  state.led_from = led_from;
  if (!is_led_from) {
    led_before_ = true;
    heard_of_it_at_ = now;
    if (phase_ == Phase::kRunning)
      end_attempt_for("another launcher has led the run meanwhile", now);
  }
  const Stamp echo = word.leader == own_.incarnation ? word.echo : 0;
  ranks_.heard(rank, echo, now);
  adopt(word, now);
  const bool clear = word.alive == 0 && echo >= ended_at_;
  // The one that was taken for lost says itself what lives.
  if (clear && state.lost_one == state.row.incarnation) state.not_before = 0;
  ranks_.set_clear(rank, clear);
  ranks_.set_ended(rank, attempt_ != 0 && word.ended == attempt_);
  if (word.signal != 0) note_signal(name(rank), word, now);
  if (word.failure) note_failure(rank, *word.failure, now);
  if (phase_ == Phase::kRunning && rank == 0 && !store_ && word.store &&
      word.store->attempt == attempt_) {
    store_ = word.store;
    ++version_;
  }
}

// The first that is heard. A second one at the same node has all killed.
void Leader::note_signal(const std::string& who, const NodeWord& word, std::uint64_t now) {
  if (phase_ == Phase::kForming || phase_ == Phase::kRunning) {
    signal_ = word.signal;
    stop_is_told_ = !word.stop_why.empty();
    why_ = stop_text(who, word);
    phase_ = Phase::kStopping;
    ranks_.release_lost();
    cause_.close();
    nothing_may_live(now);
  }
  if (word.kill_all && !std::exchange(kill_all_, true)) ++version_;
}

void Leader::note_failure(int rank, const Failure& failure, std::uint64_t now) {
  if (failure.attempt != attempt_) return;
  add_failure({now - std::min(now, failure.age_ns), rank, name(rank) + ": " + failure.text,
               failure.code, failure.by_signal || failure.has_error_file, failure.final},
              now);
}

// The first one ends the attempt; others may turn out to have come before.
void Leader::add_failure(const NodeFailure& failure, std::uint64_t now) {
  if (phase_ != Phase::kRunning && !cause_.is_open()) return;
  cause_.add(failure);
  if (phase_ == Phase::kRunning) end_attempt(now);
  if (!cause_.is_final() || phase_ != Phase::kForming) return;
  phase_ = Phase::kStopping;
  ++version_;
}

// What it knows of leaders before this one.
void Leader::adopt(const NodeWord& word, std::uint64_t now) {
  if (word.final && !final_) {
    final_is_told_ = true;
    finish(*word.final);
  }
  if (word.told <= attempt_) return;
  if (word.signal != 0) note_signal(word.row.host + " (" + word.row.address + ")", word, now);
  follow(std::max(word.told, before_.run == run_ ? before_.attempt : 0), now);
}

void Leader::follow(Attempt attempt, std::uint64_t now) {
  attempt_ = attempt;
  led_before_ = true;
  heard_of_it_at_ = now;
  nothing_may_live(now);
  // The leader that is gone is a lost node.
  if (phase_ == Phase::kForming || phase_ == Phase::kRunning)
    end_attempt_for("the launcher that led was lost", now);
}

void Leader::lose(int rank, const std::string& why, std::uint64_t now) {
  RankState& state = ranks_.of(rank);
  if (state.link) {
    dropped_.push_back(*state.link);
    forget(*state.link);
  }
  // Workers of an earlier holder of the rank, which never was clear, are still waited for.
  state.lost_one = state.not_before == 0 ? state.row.incarnation : state.lost_one;
  state.not_before = state.heard_at + rules_.limit + rules_.grace;
  const std::uint64_t since =
      state.link ? state.heard_at : std::max(state.heard_at, state.closed_at);
  ranks_.lose(rank);
  begins_at_.reset();
  add_failure(
      {since, rank, name(rank) + " " + why, exit_code(ErrorKind::kUnavailable), true, false}, now);
  if (phase_ == Phase::kStopping || phase_ == Phase::kFinal) ranks_.release(rank);
}

// Once for each attempt, whatever else dies of the same.
void Leader::end_attempt(std::uint64_t now) {
  cause_.open(now);
  why_.clear();
  phase_ = may_restart() ? Phase::kForming : Phase::kStopping;
  waits_since_ = now;
  nothing_may_live(now);
}

// For what is known at once.
void Leader::end_attempt_for(const std::string& why, std::uint64_t now) {
  end_attempt(now);
  cause_.clear();
  if (may_restart()) {
    why_ = why;
    return;
  }
  Final end{exit_code(ErrorKind::kUnavailable), why + "; " + no_restart(rules_.max_restarts)};
  if (!rules_.in_turn) return finish(std::move(end));
  if (!unless_told_) unless_told_ = std::move(end);
}

// Once all have told what they know, or time is up. Who may still come back within its second has
// perhaps failed first, or is the loss that came first.
bool Leader::may_settle(std::uint64_t now) const {
  if (!cause_.is_open()) return false;
  if (ranks_.working() == 0 && ranks_.away() == 0) return true;
  const std::uint64_t until = cause_.since() + rules_.settle;
  return now >= until && ranks_.oldest_away() >= until;
}

void Leader::settle(std::uint64_t now) {
  const bool ends = phase_ == Phase::kStopping;
  const NodeFailure* root = cause_.root(ends && may_restart());
  std::string text = root->text + unheard(now);
  if (ends && !root->final) text += "; " + no_restart(rules_.max_restarts);
  if (ends) {
    finish({root->code, std::move(text), root->node});
  } else {
    why_ = std::move(text);
    ++version_;
  }
  cause_.close();
  tell_missing(now);
}

void Leader::nothing_may_live(std::uint64_t now) {
  ended_at_ = stamp(now);
  ranks_.nothing_is_clear();
  begins_at_.reset();
  ++version_;
}

void Leader::finish(Final final) {
  if (final_) return;
  final_ = std::move(final);
  phase_ = Phase::kFinal;
  ranks_.release_lost();
  for (const Link link : std::set<Link>(waiting_)) refuse_surplus(link, links_.at(link));
  ++version_;
}

// Of what leaders before this one have told. Whoever has an end from one of them keeps it for 3 L
// after that one's last word, of which L has passed where that was silent.
bool Leader::has_heard_all(std::uint64_t now) const {
  return ranks_.all_here() || now >= leads_since_ + 3 * rules_.limit;
}

// A node that was led before and has not heard of this end would wait for a leader until
// join_timeout: it may come late.
bool Leader::others_may_wait(std::uint64_t now) const {
  if (!rules_.in_turn || has_heard_all(now)) return false;
  const bool was_led = stop_is_told_ || (led_before_ && attempt_ != 0);
  return final_is_told_ || (signal_ != 0 && !kill_all_ && was_led);
}

void Leader::decide(std::uint64_t now) {
  if (unless_told_ && has_heard_all(now)) finish(*unless_told_);
  if (phase_ == Phase::kRunning && ranks_.ended() == rules_.nodes) finish({0, ""});
  if (may_settle(now)) settle(now);
  // The answer of a node that slept may be to an old word: it has a newer one in a moment, and
  // before that the fence of a new attempt would end it.
  if (phase_ == Phase::kForming && ranks_.clear() == rules_.nodes && age(now) < rules_.limit / 2) {
    if (!begins_at_) begins_at_ = may_begin_at();
    if (now >= *begins_at_) begin(now);
  }
  if (phase_ == Phase::kStopping && signal_ != 0 && ranks_.working() == 0)
    finish({128 + signal_, why_});
  if (phase_ == Phase::kFinal && !over_ && !others_may_wait(now) && done_ == links_.size() &&
      ranks_.away() == 0) {
    over_ = true;
    ++version_;
  }
}

void Leader::begin(std::uint64_t now) {
  phase_ = Phase::kRunning;
  led_before_ = false;
  run_is_known_ = true;
  ++attempt_;
  ended_at_ = stamp(now);
  store_.reset();
  cause_.clear();
  world_ = 0;
  ranks_.nothing_is_clear();
  ranks_.nothing_has_ended();
  std::map<std::string, std::uint32_t> of_role;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    RankState& state = ranks_.of(rank);
    state.base_rank = std::exchange(world_, world_ + state.row.workers);
    std::uint32_t& role = of_role[state.row.role];
    state.role_base = std::exchange(role, role + state.row.workers);
  }
  for (int rank = 0; rank < ranks_.size(); ++rank)
    ranks_.of(rank).role_world = of_role[ranks_.at(rank).row.role];
  ++version_;
}

// It has slept for so long that the others have killed their workers: nobody else has failed.
void Leader::look_at_clock(std::uint64_t now) {
  const std::uint64_t before = std::exchange(now_, now);
  if (phase_ != Phase::kRunning || before == 0 || now < before + rules_.limit) return;
  const int own = links_.at(kOwnLink).rank;
  // Before all that was last heard of others.
  add_failure({before - std::min(before, rules_.limit / 4), own,
               name(own) + ", which leads, stood still for " + seconds(now - before),
               exit_code(ErrorKind::kUnavailable), true, false},
              now);
}

void Leader::tick(std::uint64_t now) {
  look_at_clock(now);
  while (const std::optional<int> rank = ranks_.take_silent(now))
    lose(*rank,
         now >= ranks_.at(*rank).heard_at + rules_.limit ? "was silent for " + seconds(rules_.limit)
                                                         : "has closed its connection",
         now);
  while (const std::optional<Link> link = silent_.take(now)) {
    const std::uint64_t until = links_.at(*link).heard_at + rules_.limit;
    if (now < until) {
      silent_.set(*link, until);
    } else {
      dropped_.push_back(*link);
      forget(*link);
    }
  }
  // Where all are there and a fence is waited for, the wait ends by itself.
  if (phase_ == Phase::kForming && !begins_at_ && now >= waits_since_ + rules_.join_timeout)
    finish({exit_code(ErrorKind::kUnavailable),
            "not all nodes came to the launcher at " + rules_.endpoint + " within " +
                seconds(rules_.join_timeout) +
                " (--rdzv-conf join_timeout); missing: " + missing(now)});
  assign_waiting(now);
  decide(now);
  tell_missing(now);
}

// A lost one at once, with the cause; who is on its way is missed after a while.
void Leader::tell_missing(std::uint64_t now) {
  const bool is_lost = attempt_ != 0 && !cause_.is_open() && !ranks_.all_here();
  const bool tells = phase_ == Phase::kForming && (is_lost || now >= waits_since_ + kWaitTold);
  waits_for_ = tells ? waiting_for(now) : "";
}

std::uint64_t Leader::age(std::uint64_t now) const {
  return now - std::min(now, ranks_.oldest_echo());
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
  if (phase_ == Phase::kForming) word.waits_for = waits_for_;
  word.signal = kill_all_                                    ? SIGKILL
                : phase_ == Phase::kStopping && signal_ == 0 ? SIGTERM
                                                             : signal_;
  word.final = final_;
  word.over = over_;
  word.limit = rules_.limit;
  word.age = age(now);
  word.sent = stamp(now);
  if (const auto own = links_.find(kOwnLink); own != links_.end())
    word.leader_rank = own->second.rank;
  if (found == links_.end()) return word;
  const Node& node = found->second;
  word.rank = node.rank;
  word.refusal = node.refusal;
  word.refusal_code = node.refusal_code;
  word.echo = node.word.sent;
  word.world = world_;
  if (node.rank < 0) return word;
  const RankState& state = ranks_.at(node.rank);
  word.base_rank = state.base_rank;
  word.role_base = state.role_base;
  word.role_world = state.role_world;
  return word;
}

}  // namespace lockstep::nodes
