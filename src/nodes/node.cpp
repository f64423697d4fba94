#include "nodes/node.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/no_restart.h"
#include "base/seconds.h"
#include "lockstep/status.h"

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kLook = 250'000'000;  // at the time, where nothing is due

}  // namespace

Node::Node(const Rules& rules, Row row, std::uint64_t now)
    : rules_(rules), heard_at_(now), now_(now) {
  state_.row = std::move(row);
}

void Node::leave(int code, std::string why) {
  stop(SIGKILL);  // others' may be there in their place
  if (leaving_) return;
  leaving_ = Final{code, std::move(why)};
  why_ = leaving_->text;
  ++version_;
}

void Node::heard(const LeaderWord& word, std::uint64_t now) {
  heard_at_ = now_ = now;
  closed_at_.reset();
  if (!word.refusal.empty()) return leave(word.refusal_code, word.refusal);
  take_leader(word);
  if (word.sent <= state_.echo) return;
  state_.echo = word.sent;
  rules_.limit = word.limit;
  take_end(word);
  waits_for_ = word.waits_for;
  has_rank_ = word.rank >= 0;
  if (!has_rank_) return;
  take_orders(word);
  if (may_begin(word, now)) begin(word);
}

void Node::take_leader(const LeaderWord& word) {
  if (state_.leader == word.incarnation) return;
  state_.led_from =
      state_.led_from.empty() || state_.led_from == leader_machine_ ? leader_machine_ : "several";
  leader_machine_ = word.machine;
  state_.leader = word.incarnation;
  state_.echo = 0;
  fence_at_ = 0;
}

void Node::take_end(const LeaderWord& word) {
  if (word.final && !state_.final) {
    state_.final = word.final;
    stop(SIGTERM);
    ++version_;
  }
  over_ = over_ || (word.over && state_.final);
}

void Node::take_orders(const LeaderWord& word) {
  state_.row.rank = word.rank;
  leader_rank_ = word.leader_rank;
  state_.run = word.run;
  // What an earlier word of this leader has granted still holds, and may be more: words that wait
  // for a node that slept answer none of its own since.
  fence_at_ =
      std::max(fence_at_, word.echo + (word.age < rules_.limit ? rules_.limit - word.age : 0));
  if (word.attempt > state_.alive || !word.runs) stop(end_by(word));
  state_.told = std::max(state_.told, word.attempt);
  why_ = word.final ? word.final->text : word.why;
  const Attempt last = word.attempt - (word.runs ? 1 : 0);
  if (!why_.empty() && !word.final && word.signal == 0 && last == state_.ran) why_of_ = last;
  if (word.runs && word.attempt == state_.alive && !started_) share_.store = word.store;
  // A stop alone is told with its cause before Final is.
  if (!word.final && word.signal != 0 && !word.why.empty() && signal_told_ == 0) {
    signal_told_ = word.signal == SIGKILL ? SIGTERM : word.signal;
    signal_told_why_ = word.why;
  }
  // The leader waits for an answer to this one: not for the next heartbeat.
  const Waited waited{state_.leader, word.attempt, word.runs, word.signal};
  if (std::exchange(waited_, waited) != waited) ++version_;
}

bool Node::may_begin(const LeaderWord& word, std::uint64_t now) const {
  return word.runs && word.attempt >= state_.told && word.attempt > state_.ran &&
         state_.alive == 0 && now < fence_at_ && !leaving_;
}

void Node::begin(const LeaderWord& word) {
  state_.ran = state_.alive = word.attempt;
  state_.led_from.clear();
  started_ = kill_ = false;
  state_.failure.reset();
  state_.store.reset();
  share_ = {word.base_rank, word.world, word.role_base, word.role_world, word.rank, word.store};
  ++version_;
}

// A launcher that was told to end lets its workers save: it will say so, and nothing follows.
int Node::end_by(const LeaderWord& word) const {
  if (word.signal != SIGKILL && (word.final || state_.signal != 0)) return SIGTERM;
  return word.signal != 0 ? word.signal : SIGKILL;
}

void Node::closed(std::uint64_t now) {
  if (!closed_at_) closed_at_ = now;
}

void Node::not_reached(const std::string& why) { trouble_ = why; }

void Node::signalled(int signal, std::string by) {
  if (state_.signal != 0) {
    state_.kill_all = true;
    ++version_;
    return stop(SIGKILL);
  }
  state_.signal = signal;
  state_.signal_by = std::move(by);
  stop(signal);
  ++version_;
}

// The first signal that asks for an end is the one that workers get; SIGKILL comes in between.
void Node::stop(int signal) {
  if (state_.alive == 0) return;
  if (!started_) {
    state_.alive = 0;
    ++version_;
    return;
  }
  if (!kill_ || signal == SIGKILL) stop_by_ = signal;
  if (!std::exchange(kill_, true)) killed_at_ = now_;
}

void Node::serves(Store store) {
  state_.store = std::move(store);
  ++version_;
}

void Node::workers_started() { started_ = true; }

void Node::workers_failed(Failure failure, std::uint64_t now) {
  const std::uint64_t at = now - std::min(now, failure.age_ns);
  if (state_.alive == 0 || state_.failure || (kill_ && at >= killed_at_)) return;
  state_.failure = std::move(failure);
  state_.failure->attempt = state_.alive;
  failed_at_ = at;
  ++version_;
}

void Node::workers_gone(bool all_ended_with_0) {
  if (all_ended_with_0 && !state_.failure) state_.ended = state_.alive;
  state_.alive = 0;
  started_ = kill_ = false;
  ++version_;
}

Node::Wish Node::wish() const {
  Wish wish;
  const bool starts = state_.alive != 0 && !started_ && !state_.failure;
  wish.serve =
      starts && share_.rank == 0 && (!state_.store || state_.store->attempt != state_.alive)
          ? state_.alive
          : 0;
  wish.run = starts && share_.store ? state_.alive : 0;
  wish.signal = kill_ && state_.alive != 0 ? stop_by_ : 0;
  return wish;
}

void Node::has_taken_lock() {
  if (!std::exchange(state_.has_lock, true)) ++version_;
}

std::uint64_t Node::leader_gone_at() const {
  const std::uint64_t silent = heard_at_ + rules_.limit;
  return closed_at_ ? std::min(silent, *closed_at_ + rules_.redial) : silent;
}

bool Node::leader_is_gone(std::uint64_t now) const { return now >= leader_gone_at(); }

// Others may start soon: nothing of this node may live then.
void Node::fence(std::uint64_t now) {
  if (state_.alive == 0 || (kill_ && stop_by_ == SIGKILL)) return;
  if (now < fence_at_ && !leader_is_gone(now)) return;
  // Of another node's loss the leader tells, in a moment.
  const std::string text = leader_is_gone(now) ? leader_lost(now) : "";
  workers_failed({state_.alive, 0, text.empty() ? "cut off from the run's other nodes" : text,
                  exit_code(ErrorKind::kUnavailable), false},
                 now);
  why_ = text;
  stop(SIGKILL);
}

std::string Node::leader_lost(std::uint64_t now) const {
  const std::string name =
      leader_rank_ < 0 ? "the launcher at " + rules_.endpoint
                       : "node " + std::to_string(leader_rank_) + " (" + rules_.endpoint + ")";
  return name + ", which leads, " +
         (closed_at_ ? "has closed its connection" : "was silent for " + seconds(now - heard_at_));
}

void Node::tick(std::uint64_t now) {
  now_ = now;
  fence(now);
  if (over_ && state_.alive == 0) ending_ = state_.final;
  if (state_.signal != 0 || signal_told_ != 0) end_by_signal(now);
  if (leader_is_gone(now)) go_on_alone(now);
  if (leaving_ && state_.alive == 0 && !ending_) ending_ = leaving_;
}

// Alone, where no leader is there who would have all end, or where it takes no part. A stop that
// the leader has told is not forgotten with that leader.
void Node::end_by_signal(std::uint64_t now) {
  if (!signalled_at_) signalled_at_ = now;
  const std::uint64_t since = has_rank_ ? heard_at_ : *signalled_at_;
  const bool nobody_answers =
      state_.leader == 0 || ((state_.kill_all || !has_rank_) && now >= since + rules_.redial);
  // Others may not have heard of a leader's: the next one hears it from here.
  const bool is_gone = state_.signal == 0 ? now >= next_leader_by() : leader_is_gone(now);
  if (!nobody_answers && !is_gone) return;
  if (!state_.final && state_.signal == 0)
    leave(128 + signal_told_, signal_told_why_);
  else if (!state_.final)
    leave(128 + state_.signal, stop_text(state_.row.host, state_));
  else if (state_.kill_all)
    leave(state_.final->code, state_.final->text);
}

void Node::go_on_alone(std::uint64_t now) {
  const int lost = exit_code(ErrorKind::kUnavailable);
  if (state_.final) {
    if (state_.alive == 0 && now >= gives_up_at()) ending_ = state_.final;
  } else if (has_no_restart() && now >= next_leader_by()) {
    leave(lost, leader_lost(now) + "; " + no_restart(rules_.max_restarts));
  } else if (now >= gives_up_at()) {
    const std::string waited = " within " + seconds(rules_.join_timeout) +
                               " (--rdzv-conf join_timeout)" +
                               (trouble_.empty() ? "" : ": " + trouble_);
    leave(lost, state_.leader == 0
                    ? "the launcher at " + rules_.endpoint + " was not reached" + waited
                    : leader_lost(now) + ", and was not there again" + waited);
  }
}

bool Node::has_no_restart() const {
  return state_.told > static_cast<Attempt>(rules_.max_restarts);
}

// Who knows of no end waits for a leader that has heard of one.
std::uint64_t Node::next_leader_by() const {
  return rules_.in_turn ? heard_at_ + 3 * rules_.limit : leader_gone_at();
}

std::uint64_t Node::gives_up_at() const {
  if (state_.final) return heard_at_ + 3 * rules_.limit;
  if (has_no_restart()) return next_leader_by();
  return std::max(heard_at_ + rules_.join_timeout, leader_gone_at());
}

std::string Node::tries_on(std::uint64_t now) const {
  const std::uint64_t until = gives_up_at();
  if (state_.final || leaving_ || has_no_restart() || now >= until) return "";
  return "; goes on trying for " + seconds(until - now) + " (--rdzv-conf join_timeout)";
}

std::uint64_t Node::may_live_until() const {
  return state_.alive == 0 ? 0 : std::min(fence_at_, leader_gone_at());
}

std::uint64_t Node::next_deadline(std::uint64_t now) const {
  if (state_.alive == 0) return now + kLook;
  return std::clamp(may_live_until(), now, now + kLook);
}

NodeWord Node::word(std::uint64_t now) const {
  NodeWord word = state_;
  if (word.failure) word.failure->age_ns = now - failed_at_;
  if (word.signal == 0) {
    word.signal = signal_told_;
    word.stop_why = signal_told_why_;
  }
  word.sent = now;
  return word;
}

}  // namespace lockstep::nodes
