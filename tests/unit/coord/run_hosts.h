// Two hosts under a run's keeper, for its tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "coord/run_keeper.h"

namespace lockstep::coord {

using testing::ElementsAre;

inline constexpr Stay kOther{1, 1};

// Two hosts, of two workers and one, that obey at once.
class RunHostsTest : public testing::Test {
 protected:
  RunHostsTest() {
    facts.virtual_workers = 8;
    for (std::size_t h = 0; h < views.size(); ++h) views[h].stay = facts.hosts[h].stay;
  }
  void obey(std::size_t host, const Order& order) {
    orders.emplace_back(host, order);
    const bool is_begin = std::holds_alternative<order::Begin>(order);
    if (is_begin && !begins) return;
    views[host].obeyed = ordered;
    if (is_begin) ++views[host].stay.count;
    if (std::holds_alternative<order::Kill>(order)) views[host].workers.clear();
    keeper.look_at(host, views[host]);
  }
  void hear(std::size_t host, const Report& report) {
    ++views[host].reported;
    keeper.hear(host, views[host], report);
  }
  WorkerView& ready(std::size_t host, std::uint32_t number, Txn next = Txn(0)) {
    WorkerView worker;
    worker.uid = uid_of(views[host].stay, number);
    worker.slot = Slot(number);
    worker.seat = static_cast<int>(number);
    worker.stage = Stage::kReady;
    worker.newcomer = facts.group == Group::kRunning;
    worker.next = next;
    views[host].workers.push_back(worker);
    hear(host, report::Ready{worker.uid});
    return views[host].workers.back();
  }
  void look() {
    for (std::size_t h = 0; h < views.size(); ++h) keeper.look_at(h, views[h]);
    keeper.look();
    keeper.write_tables();
  }
  void run() {
    ready(1, 1);
    ready(0, 1);
    ready(0, 2);
    look();
    for (HostView& view : views)
      for (WorkerView& worker : view.workers) {
        worker.stage = Stage::kMember;
        worker.first_txn = Txn(0);
      }
    look();
  }
  void lose(std::size_t host) {
    lose_unseen(host);
    look();
  }
  void lose_unseen(std::size_t host) {
    const WorkerView worker = views[host].workers.back();
    views[host].workers.pop_back();
    hear(host, report::Lost{worker, Rank(0), {Cause::kFromOutside, "SIGKILL"}, {}, {}});
  }
  // The leader is lost, and another one's keeper goes on.
  void hand_over(RunKeeper& next) {
    next.take_over(keeper.state(), turn.now);
    for (std::size_t h = 0; h < views.size(); ++h) next.meet(h, views[h]);
    next.go_on();
    next.look();
  }
  template <class What>
  std::vector<What> told(std::size_t host) const {
    std::vector<What> found;
    for (const auto& [to, order] : orders)
      if (const auto* what = std::get_if<What>(&order); what != nullptr && to == host)
        found.push_back(*what);
    return found;
  }
  std::vector<WorkerUid> members_of(const Table& table) const {
    std::vector<WorkerUid> uids;
    for (const Member& member : table.members) uids.push_back(member.uid);
    return uids;
  }
  std::vector<Stay> hosts_of(const Table& table) const {
    std::vector<Stay> stays;
    for (const Host& host : table.hosts) stays.push_back(host.stay);
    return stays;
  }

  Config config{.max_restarts = 1, .timing = {}};
  RunFacts facts;
  Turn turn{1'000'000'000, {}};
  std::array<HostView, 2> views;
  std::uint64_t ordered = 0;
  bool begins = true;  // false: the order to begin again is still on its way
  std::vector<std::pair<std::size_t, Order>> orders;
  std::vector<std::pair<Stay, bool>> rounds;
  std::vector<Stay> coming;
  RunKeeper keeper{config,
                   {2, 1},
                   facts,
                   turn,
                   [this](const auto& hosts, const Order& order) {
                     for (++ordered; const HostIndex host : hosts) obey(host, order);
                   },
                   [this](Stay stay, bool of_set) { rounds.emplace_back(stay, of_set); },
                   [this](Stay stay) { coming.push_back(stay); }};
};

}  // namespace lockstep::coord
