// Agents of hosts.
#include <algorithm>
#include <iterator>
#include <utility>

#include "hosts.h"

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

}  // namespace lockstep::simulation
