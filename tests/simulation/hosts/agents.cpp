// Agents, and the leader.
#include <algorithm>
#include <utility>

#include "hosts.h"
#include "link/fills.h"

namespace lockstep::simulation {

bool Hosts::attend(std::size_t index) {
  Host& host = hosts_[index];
  if (!host.alive || host.paused) return false;
  for (const std::size_t i : host.workers) {
    const Worker& worker = workers_[i];
    if (worker.alive || coord::is_dead(host.board->deaths(), worker.uid)) continue;
    note([&] {
      return "host " + std::to_string(index) + " appends its worker " +
             std::to_string(worker.place + 1);
    });
    host.board->append(worker.uid);
    return true;
  }
  if (!host.inbox.empty() && random_.chance(0.5)) {
    auto message = std::move(host.inbox.front());
    host.inbox.pop_front();
    bool news = false;
    if (auto* round = std::get_if<link::Round>(&message)) {
      if (trouble_.planted == Planted::kStaleFills)
        host.stale = std::make_unique<link::HostRounds>(*host.rounds);
      news = host.rounds->hear(*round);
    } else {
      auto& fills = std::get<link::Fills>(message);
      if (trouble_.planted == Planted::kAppendEarly) fills.get.clear();
      news = host.rounds->hear(fills);
      if (!news) see("stale fills");
    }
    note([&] {
      return "host " + std::to_string(index) + " hears " +
             (message.index() == 0 ? "a round" : "its fills") + (news ? "" : ", which are old");
    });
    return true;
  }
  const link::Stamp closed =
      trouble_.planted == Planted::kAnswerEarly ? host.rounds->orders().round : host.told.round;
  if (auto answer = host.rounds->answer(*host.board, plan_, closed)) {
    note([&] {
      return "host " + std::to_string(index) + " answers round " +
             std::to_string(answer->stamp.seq);
    });
    report(index, told(index, std::move(*answer)));
    return true;
  }
  auto append = host.rounds->append(*host.board);
  if (!append && host.stale) append = host.stale->append(*host.board);
  if (append) {
    for (const Stay stay : append->hosts) {
      note([&] {
        return "host " + std::to_string(index) + " appends host " + std::to_string(stay.host);
      });
      host.board->append(coord::death_of(stay));
    }
    check_order();
    report(index, append->told);
    return true;
  }
  return !host.inbox.empty() && attend(index);
}

void Hosts::report(std::size_t host, Report report) { reports_[host].push_back(std::move(report)); }

// Mistakes in answers.
link::Answer Hosts::told(std::size_t index, link::Answer answer) {
  const Planted planted = trouble_.planted;
  const std::vector<Stay>& out = hosts_[index].rounds->orders().out;
  if (planted == Planted::kIndexOrder) answer.appended.clear();
  if (planted == Planted::kXNoHolder && link::contains(out, hosts_[index].stay)) answer.have = {};
  if (planted != Planted::kScope0 && planted != Planted::kScope2) return answer;
  const SimBoard& board = *hosts_[index].board;
  std::vector<WorkerUid> list;
  for (const Stay stay : answer.appended)
    if (planted == Planted::kScope0 || !link::contains(out, stay))
      list.push_back(coord::death_of(stay));
  std::erase_if(answer.have.marked, [&](const Item& item) {
    if (item == link::table_of(0)) return true;
    const coord::Table* table = board.table(link::made_in(item));
    if (table == nullptr) return true;
    const auto owner = link::Owners(*table, plan_.contents(link::made_in(item)), list).owner(item);
    return !owner || !link::contains(out, *owner);
  });
  return answer;
}

bool Hosts::lead(std::size_t from) {
  if (!leader_ || reports_[from].empty()) return false;
  if (trouble_.quorum && hosts_[leader_host_].paused) return false;
  const Report report = std::move(reports_[from].front());
  reports_[from].pop_front();
  const bool news = std::visit([this](const auto& one) { return leader_->hear(one); }, report);
  note([&] {
    return std::string("the leader hears host ") + std::to_string(from) +
           (report.index() == 0 ? "'s answer" : " has appended") +
           (news ? "" : ", of an older round");
  });
  if (!news) see("reports of older rounds");
  if (news && report.index() == 0 && leader_->is_answered()) fill();
  return true;
}

std::vector<Hosts::Stay> Hosts::stays() const {
  std::vector<Stay> stays;
  for (const Host& host : hosts_) stays.push_back(host.stay);
  return stays;
}

void Hosts::tell_round() {
  const link::Round& round = leader_->round();
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
  for (const link::HostIndex host : round.set) hosts_[host].inbox.emplace_back(told);
}

// The change is in force.
void Hosts::fill() {
  const link::Round& round = leader_->round();
  if (trouble_.quorum && !quorum(round.set)) return;
  filled_ = round.stamp;
  in_force_ = round.set;
  for (link::Fills& fills : planned_fills()) {
    outcome_.seen["items filled"] += fills.get.size();
    for (const Stay stay : round.out)
      if (stay.host == fills.host && !fills.send.empty()) see("fills by a host out of the table");
    hosts_[fills.host].inbox.emplace_back(std::move(fills));
  }
  note([&] { return "the leader tells the fills of round " + std::to_string(round.stamp.seq); });
  if (trouble_.planted == Planted::kNoAck)
    for (const link::HostIndex host : std::vector(round.set))
      (void)leader_->hear(link::Appended{round.stamp, host});
}

// Mistakes of the leader.
std::vector<link::Fills> Hosts::planned_fills() const {
  const Planted planted = trouble_.planted;
  if (planted != Planted::kFillTheOut && planted != Planted::kBase) return leader_->fills();
  link::Round round = leader_->round();
  const std::vector<Stay> order = link::order_of(round, leader_->answers());
  std::vector<Stay> base = link::appended_by_all(leader_->answers());
  if (planted == Planted::kFillTheOut) {
    round.table = stays();
  } else {
    base.clear();
    for (const Stay stay : order)
      if (!link::contains(round.out, stay)) base.push_back(stay);
  }
  return link::fills_of(round, leader_->answers(), order, base, plan_);
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
    if (!link::contains(leader_->round().set, host.stay.host)) continue;
    const bool all_dead = std::ranges::all_of(host.workers, [&](std::size_t w) {
      return coord::is_dead(host.board->deaths(), workers_[w].uid);
    });
    if (!host.alive) {
      leader_->lose_host(host.stay);
    } else if (all_dead && !link::contains(gone_, host.stay)) {
      leader_->lose_workers(host.stay);
      see("hosts out of the table alone");
    } else {
      continue;
    }
    gone_.push_back(host.stay);
    tell_round();
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
        a_goes = b == leader_host_ || (a != leader_host_ && (a_goes || !quorum(without_b)));
      const Stay stay = hosts_[a_goes ? a : b].stay;
      leader_->lose_host(stay);
      gone_.push_back(stay);
      see("exclusions for a cut");
      tell_round();
      return true;
    }
  return false;
}

// A majority of the set in force; half of it with the first host.
bool Hosts::quorum(const std::vector<link::HostIndex>& hosts) const {
  std::size_t count = 0;
  for (const link::HostIndex host : hosts) count += link::contains(in_force_, host) ? 1 : 0;
  if (2 * count != in_force_.size()) return 2 * count > in_force_.size();
  return link::contains(hosts, *std::ranges::min_element(in_force_));
}

bool Hosts::elect() {
  std::vector<link::HostIndex> voters;
  for (const Host& host : hosts_)
    if (host.alive && !host.paused && link::contains(in_force_, host.stay.host))
      voters.push_back(host.stay.host);
  if (voters.empty() || !quorum(voters)) return false;
  std::vector<link::HostIndex> fewer = voters;
  fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(random_.between(0, fewer.size() - 1)));
  if (!fewer.empty() && quorum(fewer) && random_.chance(0.7)) {
    voters = fewer;
    see("votes that are missing");
  }
  ++term_;
  std::vector<link::Round> votes;
  for (const link::HostIndex host : voters) {
    link::Round vote = hosts_[host].rounds->vote(term_);
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
  leader_ = std::make_unique<link::RoundKeeper>(plan_, term_, stays(), votes);
  gone_.clear();
  for (const Host& host : hosts_)
    if (!link::contains(leader_->round().table, host.stay)) gone_.push_back(host.stay);
  see("leaders elected");
  tell_round();
  return true;
}

}  // namespace lockstep::simulation
