#include "nodes/node.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "lockstep/status.h"

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kLook = 250'000'000;  // at the time, where nothing is due

}  // namespace

Node::Node(const Rules& rules, Row row, std::uint64_t now)
    : rules_(rules), row_(std::move(row)), heard_at_(now), now_(now) {}

void Node::leave(int code, std::string why) {
  if (leaving_) return;
  leaving_ = Final{code, std::move(why)};
  why_ = leaving_->text;
  ++version_;
  stop(SIGTERM);
}

void Node::heard(const LeaderWord& word, std::uint64_t now) {
  heard_at_ = now_ = now;
  closed_at_.reset();
  if (!word.refusal.empty()) {
    leave(word.refusal_code, word.refusal);
    return stop(SIGKILL);  // another may have its rank, and its workers
  }
  take_leader(word);
  if (word.sent <= echo_) return;
  echo_ = word.sent;
  rules_.limit = word.limit;
  take_end(word);
  has_rank_ = word.rank >= 0;
  if (!has_rank_) return;
  take_orders(word);
  if (may_begin(word, now)) begin(word);
}

void Node::take_leader(const LeaderWord& word) {
  if (leader_ == word.incarnation) return;
  led_from_ = led_from_.empty() || led_from_ == leader_machine_ ? leader_machine_ : "several";
  leader_machine_ = word.machine;
  leader_ = word.incarnation;
  echo_ = 0;
  fence_at_ = 0;
}

void Node::take_end(const LeaderWord& word) {
  if (word.final && !final_) {
    final_ = word.final;
    stop(SIGTERM);
    ++version_;
  }
  over_ = over_ || (word.over && final_);
}

void Node::take_orders(const LeaderWord& word) {
  row_.rank = word.rank;
  leader_rank_ = word.leader_rank;
  run_ = word.run;
  // What an earlier word of this leader has granted still holds, and may be more: words that wait
  // for a node that slept answer none of its own since.
  fence_at_ =
      std::max(fence_at_, word.echo + (word.age < rules_.limit ? rules_.limit - word.age : 0));
  if (word.attempt > alive_ || !word.runs) stop(end_by(word));
  told_ = std::max(told_, word.attempt);
  why_ = word.final ? word.final->text : word.why;
  waits_for_ = word.waits_for;
  if (word.runs && word.attempt == alive_ && !started_) share_.store = word.store;
  // The leader waits for an answer to this one: not for the next heartbeat.
  const Waited waited{leader_, word.attempt, word.runs, word.signal};
  if (std::exchange(waited_, waited) != waited) ++version_;
}

bool Node::may_begin(const LeaderWord& word, std::uint64_t now) const {
  return word.runs && word.attempt >= told_ && word.attempt > ran_ && alive_ == 0 &&
         now < fence_at_ && !leaving_;
}

void Node::begin(const LeaderWord& word) {
  ran_ = alive_ = word.attempt;
  led_from_.clear();
  started_ = kill_ = false;
  failure_.reset();
  store_.reset();
  share_ = {word.base_rank, word.world, word.role_base, word.role_world, word.rank, word.store};
  ++version_;
}

// A launcher that was told to end lets its workers save: it will say so, and nothing follows.
int Node::end_by(const LeaderWord& word) const {
  if (word.signal != SIGKILL && (word.final || signal_ != 0)) return SIGTERM;
  return word.signal != 0 ? word.signal : SIGKILL;
}

void Node::closed(std::uint64_t now) {
  if (!closed_at_) closed_at_ = now;
}

void Node::signalled(int signal, std::string by) {
  if (signal_ != 0) {
    kill_all_ = true;
    ++version_;
    return stop(SIGKILL);
  }
  signal_ = signal;
  signal_by_ = std::move(by);
  stop(signal);
  ++version_;
}

// The first signal that asks for an end is the one that workers get; SIGKILL comes in between.
void Node::stop(int signal) {
  if (alive_ == 0) return;
  if (!started_) {
    alive_ = 0;
    ++version_;
    return;
  }
  if (!kill_ || signal == SIGKILL) stop_by_ = signal;
  if (!std::exchange(kill_, true)) killed_at_ = now_;
}

void Node::serves(Store store) {
  store_ = std::move(store);
  ++version_;
}

void Node::workers_started() { started_ = true; }

void Node::workers_failed(Failure failure, std::uint64_t now) {
  const std::uint64_t at = now - std::min(now, failure.age_ns);
  if (alive_ == 0 || failure_ || (kill_ && at >= killed_at_)) return;
  failure_ = std::move(failure);
  failure_->attempt = alive_;
  failed_at_ = at;
  ++version_;
}

void Node::workers_gone(bool all_ended_with_0) {
  if (all_ended_with_0 && !failure_) ended_ = alive_;
  alive_ = 0;
  started_ = kill_ = false;
  ++version_;
}

Node::Wish Node::wish() const {
  Wish wish;
  const bool starts = alive_ != 0 && !started_ && !failure_;
  wish.serve = starts && share_.rank == 0 && (!store_ || store_->attempt != alive_) ? alive_ : 0;
  wish.run = starts && share_.store ? alive_ : 0;
  wish.signal = kill_ && alive_ != 0 ? stop_by_ : 0;
  return wish;
}

bool Node::leader_is_gone(std::uint64_t now) const {
  return (closed_at_ && now >= *closed_at_ + rules_.redial) || now >= heard_at_ + rules_.limit;
}

// Others may start soon: nothing of this node may live then.
void Node::fence(std::uint64_t now) {
  if (alive_ == 0 || (kill_ && stop_by_ == SIGKILL)) return;
  if (now < fence_at_ && !leader_is_gone(now)) return;
  workers_failed(
      {alive_, 0, "cut off from the run's other nodes", exit_code(ErrorKind::kUnavailable), false},
      now);
  why_ = "cut off from the run's other nodes";
  stop(SIGKILL);
}

void Node::tick(std::uint64_t now) {
  now_ = now;
  fence(now);
  if (over_ && alive_ == 0) ending_ = final_;
  if (signal_ != 0) end_by_signal(now);
  if (leader_is_gone(now)) go_on_alone(now);
  if (leaving_ && alive_ == 0 && !ending_) ending_ = leaving_;
}

// Alone, where no leader is there who would have all end, or where it takes no part.
void Node::end_by_signal(std::uint64_t now) {
  if (!signalled_at_) signalled_at_ = now;
  const std::uint64_t since = has_rank_ ? heard_at_ : *signalled_at_;
  const bool nobody_answers = (kill_all_ || !has_rank_) && now >= since + rules_.redial;
  if (!nobody_answers && !leader_is_gone(now)) return;
  if (!final_)
    leave(128 + signal_, "stopped by signal " + std::to_string(signal_));
  else if (kill_all_)
    leave(final_->code, final_->text);
}

void Node::go_on_alone(std::uint64_t now) {
  const int lost = exit_code(ErrorKind::kUnavailable);
  if (final_) {
    if (alive_ == 0 && now >= heard_at_ + 3 * rules_.limit) ending_ = final_;
  } else if (told_ > static_cast<Attempt>(rules_.max_restarts)) {
    leave(lost, "the agent of the endpoint is lost");
  } else if (now >= heard_at_ + rules_.join_timeout) {
    leave(lost, "the agent of the endpoint was not there for as long as join_timeout");
  }
}

std::uint64_t Node::may_live_until() const {
  if (alive_ == 0) return 0;
  const std::uint64_t until = std::min(fence_at_, heard_at_ + rules_.limit);
  return closed_at_ ? std::min(until, *closed_at_ + rules_.redial) : until;
}

std::uint64_t Node::next_deadline(std::uint64_t now) const {
  if (alive_ == 0) return now + kLook;
  return std::clamp(may_live_until(), now, now + kLook);
}

NodeWord Node::word(std::uint64_t now) {
  NodeWord word;
  word.row = row_;
  word.run = run_;
  word.told = told_;
  word.ran = ran_;
  word.alive = alive_;
  word.ended = ended_;
  word.has_lock = has_lock_;
  word.led_from = led_from_;
  word.store = store_;
  word.failure = failure_;
  if (word.failure) word.failure->age_ns = now - failed_at_;
  word.signal = signal_;
  word.signal_by = signal_by_;
  word.kill_all = kill_all_;
  word.final = final_;
  word.leader = leader_;
  word.sent = now;
  word.echo = echo_;
  return word;
}

}  // namespace lockstep::nodes
