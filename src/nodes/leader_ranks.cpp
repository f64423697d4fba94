// Who has which node rank.
#include <string>
#include <utility>

#include "lockstep/status.h"
#include "nodes/leader.h"

namespace lockstep::nodes {
namespace {

constexpr const char* kTaken = "another agent has taken this node's rank";

}  // namespace

void Leader::refuse(Link link, Node& node, int code, std::string why) {
  done_ -= static_cast<std::size_t>(is_done(node));
  node.refusal = std::move(why);
  node.refusal_code = code;
  done_ += static_cast<std::size_t>(is_done(node));
  waiting_.erase(link);
  due_.push_back(link);
}

// A rank for whoever has none yet.
void Leader::seat(Link link, Node& node, std::uint64_t now) {
  const Row& row = node.word.row;
  if (earlier_.contains(row.incarnation))
    return refuse(link, node, exit_code(ErrorKind::kUnavailable), kTaken);
  if (node.word.run != 0 && node.word.run != run_) {
    if (attempt_ != 0 || run_is_older_)
      return refuse(link, node, exit_code(ErrorKind::kUnavailable),
                    "the endpoint serves another run now");
    run_ = node.word.run;
    run_is_older_ = true;
  }
  const int same = seats_.of_incarnation(row.incarnation);
  if (same >= 0 && seats_.at(same).link &&
      links_.at(*seats_.at(same).link).word.sent > node.word.sent)
    return;  // a late word of a connection that has been made again
  if (phase_ == Phase::kForming) adopt(node.word, now);
  if (row.rank) return seat_given(*row.rank, link, node, now);
  if (link == kOwnLink) return seat_given(0, link, node, now);
  const int rank = same >= 0 ? same : seats_.of_place(row);
  if (rank >= 0) return sit(rank, link, node);
  waiting_.insert(link);
  refuse_surplus(link, node);
}

// One more than the run has nodes, all of which have answered since it came: none is missing.
void Leader::refuse_surplus(Link link, Node& node) {
  if (final_)
    refuse(link, node, final_->code != 0 ? final_->code : exit_code(ErrorKind::kUnavailable),
           final_->code != 0 ? final_->text : "the run has ended");
  else if (seats_.all_here() && seats_.oldest_echo() > node.since)
    refuse(link, node, exit_code(ErrorKind::kUnavailable),
           "the run has all its " + std::to_string(rules_.nodes) +
               " nodes, which are alive; another run needs an endpoint of its own");
}

void Leader::seat_given(int rank, Link link, Node& node, std::uint64_t now) {
  const Row& row = node.word.row;
  if (rank < 0 || rank >= rules_.nodes)
    return refuse(link, node, exit_code(ErrorKind::kUsage),
                  "node rank " + std::to_string(rank) + " is not below --nnodes " +
                      std::to_string(rules_.nodes));
  const Seat& seat = seats_.at(rank);
  if (seats_.is_vacant(rank, row) || seat.row.incarnation == row.incarnation)
    return sit(rank, link, node);
  if (proves_dead(seat, node.word)) {
    lose(rank, "was started again", now);
    return sit(rank, link, node);
  }
  // A pod or machine may be back with another address before its earlier self is missed.
  if (!seat.link || (seat.link != kOwnLink && seat.echoed <= node.since)) return;
  if (node.word.ran != 0)  // before this leader came
    return refuse(link, node, exit_code(ErrorKind::kUnavailable), kTaken);
  refuse(link, node, exit_code(ErrorKind::kUsage),
         "node rank " + std::to_string(rank) + " is that of " + seat.row.address +
             ", which is alive; this one is " + row.address);
}

// By arrival, once as many wait as ranks are free.
void Leader::seat_waiting(std::uint64_t now) {
  while (!waiting_.empty() && !seats_.free().empty() && waiting_.size() >= seats_.free().size()) {
    const Link link = *waiting_.begin();
    Node& node = links_.at(link);
    sit(*seats_.free().begin(), link, node);
    note(node.rank, NodeWord(node.word), now);
  }
}

// Nothing of an earlier agent lives on its machine, and this one would have been one to find.
bool Leader::proves_dead(const Seat& seat, const NodeWord& word) {
  return seat.alone && word.alone && seat.row.machine == word.row.machine &&
         seat.row.incarnation != word.row.incarnation;
}

void Leader::sit(int rank, Link link, Node& node) {
  const Seat& seat = seats_.at(rank);
  if (seat.taken && seat.row.incarnation != node.word.row.incarnation) {
    earlier_.insert(seat.row.incarnation);
    if (proves_dead(seat, node.word)) seats_.of(rank).not_before = 0;
  }
  if (seat.link && *seat.link != link) {  // of a connection made again
    dropped_.push_back(*seat.link);
    forget(*seat.link);
  }
  seats_.sit(rank, link, node.word.row, node.heard_at);
  node.rank = rank;
  waiting_.erase(link);
  silent_.drop(link);
  due_.push_back(link);
  begins_at_.reset();
  waits_for_.clear();  // until the next tick
}

}  // namespace lockstep::nodes
