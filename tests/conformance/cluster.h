// Both exchanges, and all members of one in threads of their own. A death is a thread that has
// stopped at some point of a step and is then announced, as the agent would.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/member.h"
#include "conformance/shared_board.h"

namespace lockstep::conformance {

struct ShmEngine {
  explicit ShmEngine(const comm::ExchangePlan& wanted) : plan(wanted), board(wanted) {}
  std::unique_ptr<comm::Exchange> make(std::uint32_t index) {
    return comm::make_shm_exchange(board.board(), Slot(index), WorkerUid(index + 1), plan);
  }
  void kill(WorkerUid uid) { board.announce_death(uid); }
  void propose(const coord::Table& table) {
    coord::write_proposal(board.board().header().proposal, table);
  }
  comm::ExchangePlan plan;
  SharedBoard board;
};

struct FakeEngine {
  explicit FakeEngine(const comm::ExchangePlan& plan) : world(comm::make_fake_world(plan)) {}
  std::unique_ptr<comm::Exchange> make(std::uint32_t index) {
    return comm::make_fake_exchange(world, WorkerUid(index + 1));
  }
  void kill(WorkerUid uid) { comm::fake_kill(*world, uid); }
  void propose(const coord::Table&) {}
  std::shared_ptr<comm::FakeWorld> world;
};

// All members' exchanges of one engine, and threads to run them.
template <class Engine>
struct Cluster {
  Cluster(const Work& wanted, std::uint32_t members) : work(wanted), engine(wanted.plan) {
    for (std::uint32_t m = 0; m < members; ++m) exchanges.push_back(engine.make(m));
  }

  // A victim's last act is to be announced dead; the others finish the step.
  void step(const coord::Table& table,
            const std::vector<std::pair<std::uint32_t, Death>>& deaths = {}) {
    const auto death_of = [&](std::uint32_t m) {
      for (const auto& [victim, death] : deaths)
        if (victim == m) return death;
      return Death::kNever;
    };
    std::vector<std::thread> threads(exchanges.size());
    for (const coord::Member& member : table.members) {
      const std::uint32_t m = member.slot.value();
      threads[m] = std::thread([this, &table, m, death = death_of(m)] {
        const bool whole = take_step(*exchanges[m], work, table, death);
        EXPECT_EQ(whole, death == Death::kNever);
        if (!whole) {
          const std::lock_guard lock(announcing);
          engine.kill(WorkerUid(m + 1));
          return;
        }
        EXPECT_EQ(check_sums(*exchanges[m], work, table.txn), "") << "member " << m;
      });
    }
    for (std::thread& thread : threads)
      if (thread.joinable()) thread.join();
  }

  Work work;
  Engine engine;
  std::mutex announcing;
  std::vector<std::unique_ptr<comm::Exchange>> exchanges;
};

struct Names {
  template <class Engine>
  static std::string GetName(int) {
    return std::is_same_v<Engine, ShmEngine> ? "Shm" : "Fake";
  }
};
using Engines = testing::Types<ShmEngine, FakeEngine>;

inline constexpr Death kDeaths[] = {Death::kBeforeBegin, Death::kAfterSomePublished,
                                    Death::kAfterAllPublished, Death::kAfterSomeSums,
                                    Death::kAfterWhole};

}  // namespace lockstep::conformance
