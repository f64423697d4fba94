#include "nodes/view.h"

#include <algorithm>
#include <csignal>

#include "nodes/leader.h"
#include "nodes/node.h"

namespace lockstep::nodes {
namespace {

std::uint64_t since(std::uint64_t before, std::uint64_t now) { return now - std::min(now, before); }

View::State state_of(Leader::Phase phase) {
  switch (phase) {
    case Leader::Phase::kForming:
      return View::State::kForming;
    case Leader::Phase::kRunning:
      return View::State::kRunning;
    case Leader::Phase::kStopping:
      return View::State::kStopping;
    case Leader::Phase::kFinal:
      break;
  }
  return View::State::kEnding;
}

}  // namespace

View Leader::view(int from, int most, std::uint64_t now) const {
  View view;
  view.state = state_of(phase_);
  view.leads = true;
  const auto own = links_.find(kOwnLink);
  if (own != links_.end()) view.rank = view.leader_rank = own->second.rank;
  view.nodes = rules_.nodes;
  view.max_restarts = rules_.max_restarts;
  view.attempt = attempt_;
  // Of an attempt that has ended nothing is there any more.
  if (phase_ != Phase::kForming) {
    view.world = world_;
    view.store = store_;
  }
  view.why = final_ ? final_->text : why_;
  if (phase_ == Phase::kForming) {
    view.waits_for = missing(now);
    view.newcomers = static_cast<std::uint32_t>(std::min(waiting_.size(), ranks_.free().size()));
    view.waits_ns = since(waits_since_, now);
    view.left_ns = since(view.waits_ns, rules_.join_timeout);
  }
  const int first = std::clamp(from, 0, rules_.nodes);
  const int end = first + std::min(most, rules_.nodes - first);
  for (int rank = first; rank < end; ++rank) {
    Member member;
    member.rank = rank;
    if (const RankState& state = ranks_.at(rank); state.taken) {
      const auto link = state.link ? links_.find(*state.link) : links_.end();
      member.known = true;
      member.connected = state.link.has_value();
      member.works = link != links_.end() && link->second.word.alive != 0;
      member.address = state.row.address;
      member.host = state.row.host;
      member.workers = state.row.workers;
      member.silent_ns = since(state.heard_at, now);
    }
    view.members.push_back(std::move(member));
  }
  return view;
}

View Node::view(std::uint64_t now) const {
  View view;
  const bool stops = state_.signal != 0 || leaving_ || (kill_ && stop_by_ != SIGKILL);
  const bool led = is_led(now);
  view.state = state_.final                    ? View::State::kEnding
               : stops                         ? View::State::kStopping
               : state_.alive != 0 && started_ ? View::State::kRunning
               : led                           ? View::State::kForming
                                               : View::State::kWaiting;
  view.fenced = !led && state_.ran != 0 && state_.alive == 0;
  view.rank = state_.row.rank.value_or(-1);
  view.leader_rank = leader_rank_;
  view.nodes = rules_.nodes;
  view.max_restarts = rules_.max_restarts;
  view.attempt = state_.told;
  view.world = share_.world;
  view.store = share_.store;
  view.why = state_.final ? state_.final->text : why_;
  if (!led) {
    view.waits_ns = since(heard_at_, now);
    view.left_ns = since(now, gives_up_at());
  }
  view.members.push_back({view.rank, true, led, state_.alive != 0, state_.row.address,
                          state_.row.host, state_.row.workers, since(heard_at_, now)});
  return view;
}

}  // namespace lockstep::nodes
