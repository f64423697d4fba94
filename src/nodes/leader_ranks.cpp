// Who has which node rank.
#include <iterator>
#include <string>
#include <utility>

#include "lockstep/status.h"
#include "nodes/leader.h"

namespace lockstep::nodes {
namespace {

constexpr const char* kTaken = "another launcher has taken this node's rank";

}  // namespace

void Leader::refuse(Link link, Node& node, int code, std::string why) {
  done_ -= static_cast<std::size_t>(is_done(node));
  node.refusal = std::move(why);
  node.refusal_code = code;
  done_ += static_cast<std::size_t>(is_done(node));
  waits_no_more(link);
  due_.push_back(link);
}

// A rank for whoever has none yet.
void Leader::give_rank(Link link, Node& node, std::uint64_t now) {
  const Row& row = node.word.row;
  if (earlier_.contains(row.incarnation))
    return refuse(link, node, exit_code(ErrorKind::kUnavailable), kTaken);
  // The number of a run of which no attempt was told is nobody's: its leader had not heard yet of
  // the one before it.
  if (node.word.told != 0) {
    if (node.word.run != run_ && run_is_known_)
      return refuse(link, node, exit_code(ErrorKind::kUnavailable),
                    "the endpoint serves another run now");
    run_ = node.word.run;
    run_is_known_ = true;
  }
  const int same = ranks_.of_incarnation(row.incarnation);
  if (same >= 0 && ranks_.at(same).link &&
      links_.at(*ranks_.at(same).link).word.sent > node.word.sent)
    return;  // a late word of a connection that has been made again
  if (phase_ == Phase::kForming) adopt(node.word, now);
  if (row.rank) return assign_given(*row.rank, link, node, now);
  if (link == kOwnLink && !rules_.in_turn) return assign_given(0, link, node, now);
  const int rank = same >= 0 ? same : ranks_.of_lost(row);
  if (rank >= 0) return assign(rank, link, node);
  wait_for_rank(link, row.incarnation);
  refuse_surplus(link, node);
}

// By its newest connection: older ones are those that it has dialled beside.
void Leader::wait_for_rank(Link link, Incarnation incarnation) {
  Link& newest = waits_by_[incarnation];
  if (link < newest) return;
  const Link old = std::exchange(newest, link);
  waiting_.insert(link);
  if (old == link || !waiting_.contains(old)) return;
  dropped_.push_back(old);
  forget(old);
}

void Leader::waits_no_more(Link link) {
  if (waiting_.erase(link) == 0) return;
  const auto newest = waits_by_.find(links_.at(link).word.row.incarnation);
  if (newest != waits_by_.end() && newest->second == link) waits_by_.erase(newest);
}

// One more than the run has nodes, all of which have answered since it came: none is missing.
void Leader::refuse_surplus(Link link, Node& node) {
  if (final_)
    refuse(link, node, final_->code != 0 ? final_->code : exit_code(ErrorKind::kUnavailable),
           final_->code != 0 ? "the run ends: " + final_->text : "the run has ended");
  else if (ranks_.all_here() && ranks_.oldest_echo() > node.since)
    refuse(link, node, exit_code(ErrorKind::kUnavailable),
           "the run has all its " + std::to_string(rules_.nodes) +
               " nodes, which are alive; another run needs an endpoint of its own");
}

// It has a rank, or waits for none but other newcomers: who waits for a lost node's is no member.
bool Leader::is_member(Link link) const {
  if (has_rank(link)) return true;
  const auto place = waiting_.find(link);
  return place != waiting_.end() &&
         static_cast<std::size_t>(std::distance(waiting_.begin(), place)) < ranks_.free().size();
}

// Whoever is no member ends alone; the run goes on without it.
void Leader::refuse_stopped(Link link, Node& node) {
  const NodeWord& word = node.word;
  refuse(link, node, 128 + word.signal,
         stop_text(word.row.host, word) +
             (word.stop_why.empty() ? ", before it was a node of the run" : ""));
}

void Leader::assign_given(int rank, Link link, Node& node, std::uint64_t now) {
  const Row& row = node.word.row;
  if (rank < 0 || rank >= rules_.nodes)
    return refuse(link, node, exit_code(ErrorKind::kUsage),
                  "node rank " + std::to_string(rank) + " is not below --nnodes " +
                      std::to_string(rules_.nodes));
  const RankState& state = ranks_.at(rank);
  if (ranks_.is_vacant(rank, row) || state.row.incarnation == row.incarnation)
    return assign(rank, link, node);
  if (proves_dead(state, node.word)) {
    lose(rank, "was started again", now);
    return assign(rank, link, node);
  }
  // A pod or machine may be back with another address before its earlier self is missed.
  if (!state.link || (state.link != kOwnLink && state.echoed <= node.since)) return;
  if (node.word.ran != 0)  // before this leader came
    return refuse(link, node, exit_code(ErrorKind::kUnavailable), kTaken);
  refuse(link, node, exit_code(ErrorKind::kUsage),
         "node rank " + std::to_string(rank) + " is that of " + state.row.address +
             (state.row.machine == row.machine
                  ? ", where this run's launcher of that rank is started already, and is alive"
                  : ", which is alive; this one is " + row.address) +
             "; give each node a --node-rank of its own, or none of them one");
}

// By arrival, once as many wait as ranks are free.
void Leader::assign_waiting(std::uint64_t now) {
  while (!waiting_.empty() && !ranks_.free().empty() && waiting_.size() >= ranks_.free().size()) {
    const Link link = *waiting_.begin();
    Node& node = links_.at(link);
    assign(*ranks_.free().begin(), link, node);
    note(node.rank, NodeWord(node.word), now);
  }
}

// Nothing of an earlier agent lives on its machine, and this one would have been one to find.
bool Leader::proves_dead(const RankState& state, const NodeWord& word) {
  return state.has_lock && word.has_lock && state.row.machine == word.row.machine &&
         state.row.incarnation != word.row.incarnation;
}

void Leader::assign(int rank, Link link, Node& node) {
  const RankState& state = ranks_.at(rank);
  const bool others_may_live = may_have_led_others(state, link, node);
  if (state.taken && state.row.incarnation != node.word.row.incarnation) {
    earlier_.insert(state.row.incarnation);
    if (proves_dead(state, node.word)) ranks_.of(rank).not_before = 0;
  }
  if (state.link && *state.link != link) {  // of a connection made again
    dropped_.push_back(*state.link);
    forget(*state.link);
  }
  ranks_.assign(rank, link, node.word.row, node.heard_at);
  if (others_may_live) ranks_.of(rank).not_before = node.heard_at + rules_.limit + rules_.grace;
  node.rank = rank;
  waits_no_more(link);
  silent_.drop(link);
  due_.push_back(link);
  begins_at_.reset();
  waits_for_.clear();  // until the next tick
}

}  // namespace lockstep::nodes
