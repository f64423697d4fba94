// Agents of hosts.
#include <algorithm>
#include <iterator>
#include <utility>

#include "hosts.h"

namespace lockstep::simulation {

bool Hosts::attend(std::size_t index) {
  Host& host = hosts_[index];
  if (!host.alive || host.paused) return false;
  if (withdraw(host) || replace_worker(index)) return true;
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
    const auto leader = std::next(
        host.inbox.begin(), static_cast<std::ptrdiff_t>(random_.between(0, host.inbox.size() - 1)));
    auto message = std::move(leader->second.front());
    leader->second.pop_front();
    if (leader->second.empty()) host.inbox.erase(leader);
    bool news = false;
    if (auto* round = std::get_if<link::Round>(&message)) {
      if (trouble_.planted == Planted::kStaleFills)
        host.stale = std::make_unique<link::HostRounds>(*host.rounds);
      news = host.rounds->hear(*round);
      for (const Stay stay : round->table)
        if (news && stay.host == host.stay.host &&
            (stay != host.stay || outside_again(index, stay)))
          open_stay(index, stay);
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
    host.knows_dead = true;
    check_order();
    report(index, append->told);
    return true;
  }
  return !host.inbox.empty() && attend(index);
}

// Planted: the host has not counted on.
bool Hosts::outside_again(std::size_t index, Stay stay) const {
  return trouble_.planted == Planted::kStayAgain && stay == hosts_[index].stay && !live(index) &&
         coord::is_dead(hosts_[index].board->deaths(), coord::death_of(stay));
}

// With the last member go those that were to come.
bool Hosts::withdraw(Host& host) {
  const auto index = static_cast<std::size_t>(host.stay.host);
  if (outside(index) || live(index)) return false;
  bool some = false;
  for (const std::size_t w : host.workers) {
    if (!workers_[w].alive) continue;
    kill_worker(workers_[w]);
    some = true;
  }
  return some;
}

// A dead worker's place is taken by one that heals from a neighbour.
bool Hosts::replace_worker(std::size_t index) {
  Host& host = hosts_[index];
  const auto alive =
      std::ranges::count_if(host.workers, [&](std::size_t w) { return workers_[w].alive; });
  const std::uint32_t asked = host.stay.count > 1 ? 1 : trouble_.shape.workers[index];
  if (left_.replacements == 0 || !live(index) || alive >= asked || !random_.chance(0.2))
    return false;
  for (const std::size_t w : host.workers) {
    if (workers_[w].alive || !coord::is_dead(host.board->deaths(), workers_[w].uid)) continue;
    --left_.replacements;
    const WorkerUid dead = workers_[w].uid;
    Worker& worker = add_worker(index, true);
    if (trouble_.planted == Planted::kUidAgain) worker.uid = dead;
    actors_.push_back({1, [this, &worker] { return work(worker); }});
    see("replacements");
    if (!host.rounds->orders().out.empty()) see("replacements during a round");
    note([&] {
      return "host " + std::to_string(index) + " has a new worker " +
             std::to_string(worker.place + 1);
    });
    return true;
  }
  return false;
}

// What it had is gone; so are its connections.
void Hosts::open_stay(std::size_t index, Stay stay) {
  Host& host = hosts_[index];
  for (const std::size_t w : host.workers)
    if (workers_[w].alive) kill_worker(workers_[w]);
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    if (other == index) continue;
    lose(index, other);
    lose(other, index);
    close_end(index, other);
    close_end(other, index);
  }
  note([&] {
    return "host " + std::to_string(index) + " opens the board of stay " +
           std::to_string(stay.count);
  });
  host.stay = stay;
  host.workers.clear();
  host.board = std::make_unique<SimBoard>(stay, trouble_, plan_);
  host.board->begin_at(link::kNever);
  host.owners = std::make_unique<link::BoardOwners>(plan_);
  host.landings = {};
  host.knows_dead = false;
  host.rounds->enter(stay);
  Worker& worker = add_worker(index, true);
  actors_.push_back({1, [this, &worker] { return work(worker); }});
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    if (other == index) continue;
    for (const auto& [from, to] : {std::pair(index, other), std::pair(other, index)}) {
      Direction& direction = way(from, to);
      direction.pair = planted_pair(hosts_[from].stay, hosts_[to].stay, trouble_.planted);
      direction.pair->obey(hosts_[from].orders);
      ++direction.changed;
    }
  }
}

void Hosts::report(std::size_t host, Report report) { reports_[host].push_back(std::move(report)); }

// Mistakes in answers.
link::Answer Hosts::told(std::size_t index, link::Answer answer) {
  const Planted planted = trouble_.planted;
  const std::vector<Stay>& out = hosts_[index].rounds->orders().out;
  if (planted == Planted::kIndexOrder) answer.appended.clear();
  if (planted == Planted::kXNoHolder && link::contains(out, hosts_[index].stay)) answer.have = {};
  if (planted == Planted::kComerSilent && answer.have.first == link::kNever)
    answer.have.marked.clear();
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

}  // namespace lockstep::simulation
