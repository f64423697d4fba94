// The leader: one at a time, but one that is cut off may not know yet that there is another.
#include <algorithm>
#include <utility>

#include "hosts.h"
#include "link/fills.h"

namespace lockstep::simulation {

// Whoever hears of another leader.
void Hosts::step_down() {
  std::erase_if(deposed_, [this](const Deposed& one) {
    const Host& host = hosts_[one.host];
    return !host.alive || host.rounds->orders().round.term > one.keeper->round().stamp.term;
  });
}

bool Hosts::lead(std::size_t from) {
  step_down();
  if (reports_[from].empty() || (!leader_ && deposed_.empty())) return false;
  if (leader_ && trouble_.quorum && hosts_[leader_host_].paused) return false;
  const Report report = std::move(reports_[from].front());
  reports_[from].pop_front();
  const auto hears = [&](link::RoundKeeper& leader) {
    const bool news = std::visit([&](const auto& one) { return leader.hear(one); }, report);
    note([&] {
      return "the leader of term " + std::to_string(leader.round().stamp.term) + " hears host " +
             std::to_string(from) + (report.index() == 0 ? "'s answer" : " has appended") +
             (news ? "" : ", of another round");
    });
    return news;
  };
  if (leader_ && hears(*leader_)) {
    if (report.index() == 0 && leader_->is_answered()) fill(*leader_, in_force_);
    return true;
  }
  see("reports of older rounds");
  for (Deposed& one : deposed_)
    if (hears(*one.keeper) && report.index() == 0 && one.keeper->is_answered())
      fill(*one.keeper, one.in_force);
  return true;
}

// Those that do not know that they lead no more go on excluding hosts.
bool Hosts::lead_on() {
  step_down();
  for (Deposed& one : deposed_) {
    if (hosts_[one.host].paused) continue;
    for (const Host& host : hosts_) {
      const link::Round& round = one.keeper->round();
      if (host.stay.host == one.host || !link::contains(round.set, host.stay.host)) continue;
      if (host.alive && (left_.suspicions == 0 || !random_.chance(0.3))) continue;
      if (host.alive) --left_.suspicions;
      see("rounds of a deposed leader");
      one.keeper->know(*hosts_[one.host].board);
      one.keeper->lose_host(host.stay);
      tell_round(*one.keeper);
      return true;
    }
  }
  return false;
}

std::vector<Hosts::Stay> Hosts::stays() const {
  std::vector<Stay> stays;
  for (const Host& host : hosts_) stays.push_back(host.stay);
  return stays;
}

void Hosts::tell_round(const link::RoundKeeper& leader) {
  const link::Round& round = leader.round();
  note([&] {
    std::string text = "the leader begins round " + std::to_string(round.stamp.seq) + " of term " +
                       std::to_string(round.stamp.term) + ", out:";
    for (const Stay stay : round.out) text += " " + std::to_string(stay.host);
    text += ", set:";
    for (const auto host : round.set) text += " " + std::to_string(host);
    return text;
  });
  see("rounds");
  if (round.out.size() > 1) see("rounds that name several");
  link::Round told = round;
  if (trouble_.planted == Planted::kReopenAll)
    for (const Host& host : hosts_)
      if (!link::contains(told.set, host.stay.host)) told.set.push_back(host.stay.host);
  for (const link::HostIndex host : round.set)
    hosts_[host].inbox[round.stamp.term].emplace_back(told);
  if (trouble_.planted == Planted::kComerLate && leader_)
    for (const Worker& worker : workers_)
      if (worker.comes && outside(worker.host))
        (void)leader_->hear(link::Answer{.stamp = round.stamp,
                                         .host = hosts_[worker.host].stay.host,
                                         .have = {.first = link::kNever},
                                         .other_tables = {},
                                         .appended = {}});
}

// The change is in force.
void Hosts::fill(link::RoundKeeper& leader, std::vector<link::HostIndex>& in_force) {
  const link::Round& round = leader.round();
  if (trouble_.quorum && !quorum(round.set, in_force)) return;
  in_force = round.set;
  if (round.stamp > newest_in_force_) {  // what a deposed leader says counts for nobody any more
    newest_in_force_ = round.stamp;
    in_force_ = round.set;
  }
  if (round.stamp == newest_in_force_) listable_ = round.table;
  for (link::Fills& fills : planned_fills(leader)) {
    outcome_.seen["items filled"] += fills.get.size();
    for (const Stay stay : round.out)
      if (stay.host == fills.host && !fills.send.empty()) see("fills by a host out of the table");
    hosts_[fills.host].inbox[round.stamp.term].emplace_back(std::move(fills));
  }
  note([&] { return "the leader tells the fills of round " + std::to_string(round.stamp.seq); });
  if (trouble_.planted == Planted::kNoAck)
    for (const link::HostIndex host : std::vector(round.set))
      (void)leader.hear(link::Appended{round.stamp, host});
}

// Mistakes of the leader.
std::vector<link::Fills> Hosts::planned_fills(const link::RoundKeeper& leader) const {
  const Planted planted = trouble_.planted;
  if (planted != Planted::kFillTheOut && planted != Planted::kBase) return leader.fills();
  link::Round round = leader.round();
  const std::vector<Stay> order = link::order_of(round, leader.answers());
  std::vector<Stay> base = link::appended_by_all(leader.answers());
  if (planted == Planted::kFillTheOut) {
    round.table = stays();
  } else {
    base.clear();
    for (const Stay stay : order)
      if (!link::contains(round.out, stay)) base.push_back(stay);
  }
  return link::fills_of(round, leader.answers(), order, base, plan_);
}

// What the leader notices.
bool Hosts::watch() {
  if (!leader_) return elect();
  if (trouble_.quorum && !hosts_[leader_host_].alive) {
    leader_.reset();
    return true;
  }
  if (trouble_.quorum && hosts_[leader_host_].paused) return false;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const Host& host = hosts_[h];
    if (let_join(h)) return true;
    if (!link::contains(leader_->round().set, host.stay.host)) continue;
    const bool all_dead = std::ranges::all_of(host.workers, [&](std::size_t w) {
      return coord::is_dead(host.board->deaths(), workers_[w].uid);
    });
    leader_->know(*hosts_[leader_host_].board);
    if (!host.alive) {
      leader_->lose_host(host.stay);
    } else if (all_dead && !link::contains(gone_, host.stay)) {
      leader_->lose_workers(host.stay);
      see("hosts out of the table alone");
    } else {
      continue;
    }
    gone_.push_back(host.stay);
    tell_round(*leader_);
    return true;
  }
  for (std::size_t a = 0; a < hosts_.size(); ++a)
    for (std::size_t b = a + 1; b < hosts_.size(); ++b) {
      if (!cut_[a * hosts_.size() + b] || !in_set(a) || !in_set(b)) continue;
      // That goes with which hosts of the table and a quorum stay; of equal ones the lower.
      auto without_b = leader_->round().set;
      std::erase(without_b, hosts_[b].stay.host);
      bool a_goes = live(b) && !live(a);
      if (trouble_.quorum)
        a_goes =
            b == leader_host_ || (a != leader_host_ && (a_goes || !quorum(without_b, in_force_)));
      const Stay stay = hosts_[a_goes ? a : b].stay;
      leader_->lose_host(stay);
      gone_.push_back(stay);
      see("exclusions for a cut");
      tell_round(*leader_);
      return true;
    }
  return false;
}

// A host that has lost its workers, or all, comes back as a new stay once it is appended on all
// boards.
bool Hosts::let_join(std::size_t index) {
  Host& host = hosts_[index];
  const link::Round& round = leader_->round();
  const bool planted = trouble_.planted == Planted::kStayAgain;
  if (left_.returns == 0 || !link::contains(gone_, host.stay) ||
      link::contains(round.out, host.stay) || host.paused || !random_.chance(0.2))
    return false;
  const bool is_member = link::contains(round.set, host.stay.host);
  if (!host.alive && trouble_.quorum) return false;  // who votes is another matter
  if (host.alive != is_member || cut_off(index)) return false;
  --left_.returns;
  const Stay stay{host.stay.host, static_cast<std::uint16_t>(host.stay.count + (planted ? 0 : 1))};
  std::erase(gone_, host.stay);
  leader_->join(stay);
  note([&] {
    return "host " + std::to_string(index) + " is to come back as stay " +
           std::to_string(stay.count);
  });
  if (!host.alive) {
    see("dead hosts that come back");
    in_force_ = leader_->round().set;
    host.alive = host.link_alive = true;
    host.link_paused = false;
    std::vector<link::HostIndex> all;
    for (const Host& one : hosts_) all.push_back(one.stay.host);
    host.rounds = std::make_unique<link::HostRounds>(stay, all);
    (void)host.rounds->hear(leader_->round());
    host.told = host.orders = host.rounds->orders();  // before it dials or accepts
    open_stay(index, stay);
  } else {
    see("hosts that come back");
  }
  tell_round(*leader_);
  return true;
}

bool Hosts::cut_off(std::size_t index) const {
  for (std::size_t other = 0; other < hosts_.size(); ++other)
    if (cut_[index * hosts_.size() + other]) return true;
  return false;
}

// A majority of the set in force; half of it with the first host.
bool Hosts::quorum(const std::vector<link::HostIndex>& hosts,
                   const std::vector<link::HostIndex>& set) const {
  std::size_t count = 0;
  for (const link::HostIndex host : hosts) count += link::contains(set, host) ? 1 : 0;
  if (2 * count != set.size()) return 2 * count > set.size();
  return link::contains(hosts, *std::ranges::min_element(set));
}

bool Hosts::elect() {
  std::vector<link::HostIndex> voters;
  for (const Host& host : hosts_)
    if (host.alive && !host.paused && link::contains(in_force_, host.stay.host))
      voters.push_back(host.stay.host);
  if (voters.empty() || !quorum(voters, in_force_)) return false;
  std::vector<link::HostIndex> fewer = voters;
  const std::size_t cut_off = random_.between(0, voters.size() - 1);
  std::erase(fewer, deposed_.empty() ? voters[cut_off] : deposed_.back().host);
  if (!fewer.empty() && quorum(fewer, in_force_) && (!deposed_.empty() || random_.chance(0.7))) {
    voters = fewer;
    see("votes that are missing");
  }
  ++term_;
  std::vector<link::Round> votes;
  for (const link::HostIndex host : voters) {
    link::HostRounds as_before = *hosts_[host].rounds;
    link::Round vote = hosts_[host].rounds->vote(term_);
    if (trouble_.planted == Planted::kNoPromise) *hosts_[host].rounds = std::move(as_before);
    if (trouble_.planted == Planted::kForget) {
      vote.set = in_force_;
      vote.out.clear();
      for (const WorkerUid death : hosts_[host].board->deaths())
        if (death == coord::death_of(coord::stay_of(death)))
          vote.out.push_back(coord::stay_of(death));
    }
    votes.push_back(vote);
  }
  leader_host_ = voters[random_.between(0, voters.size() - 1)];
  note([&] {
    return "host " + std::to_string(leader_host_) + " is elected by " +
           std::to_string(voters.size());
  });
  std::erase_if(deposed_, [&](const Deposed& one) { return link::contains(voters, one.host); });
  leader_ = std::make_unique<link::RoundKeeper>(plan_, term_, stays(), votes);
  gone_.clear();
  for (const Host& host : hosts_)
    if (!link::contains(leader_->round().table, host.stay)) gone_.push_back(host.stay);
  see("leaders elected");
  tell_round(*leader_);
  return true;
}

}  // namespace lockstep::simulation
