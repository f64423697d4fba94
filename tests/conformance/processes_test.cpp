// The shared-memory exchange between real processes, one of which is killed with SIGKILL at a
// random moment. The next table is published by the first live member, as in
// docs/design/protocol.md.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "conformance/member.h"
#include "conformance/shared_board.h"

namespace lockstep::conformance {
namespace {

constexpr std::uint64_t kSteps = 150;

// Publishes the table of txn + 1: today's live members.
void publish_next_table(coord::Board board, const coord::Table& table,
                        const coord::Ownership& ownership) {
  coord::Table next{Txn(table.txn.value() + 1), table.generation, coord::kNone, {}};
  for (std::uint32_t m = 0; m < table.members.size(); ++m)
    if (ownership.alive(m)) next.members.push_back(table.members[m]);
  coord::write_table(board.table(next.txn), next);
}

// A member's life. 0: all steps done and right.
int live(coord::Board board, const Work& work, std::uint32_t index, std::uint32_t members) {
  const auto exchange =
      comm::make_shm_exchange(board, Slot(index), WorkerUid(index + 1), work.plan);
  coord::Table table = table_of(Txn(0), members);
  exchange->prefault(false);
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    if (!exchange->begin(table).ok()) return 10;
    Lent lent;
    std::set<std::uint32_t> done;
    publish_owned(*exchange, work, table.txn, done, work.plan.buckets.size(), lent);
    const coord::TableCell& cell = board.table(Txn(t + 1));
    const auto table_there = [&] {
      if (cell.mark.load(std::memory_order_acquire) == t + 2) return true;
      if (exchange->ownership().first_live() != exchange->self()) return false;
      publish_next_table(board, table, exchange->ownership());
      exchange->ring_members();
      return true;
    };
    for (;;) {
      const auto outcome = exchange->wait(table_there, Deadline::in(20s));
      if (!outcome.ok()) {
        std::fprintf(stderr, "member %u: %s\n", index, outcome.error().message.c_str());
        return 11;
      }
      if (*outcome == comm::Wait::kWhole) break;
      publish_owned(*exchange, work, table.txn, done, work.plan.buckets.size(), lent);
    }
    const std::string wrong = check_sums(*exchange, work, Txn(t));
    if (!wrong.empty()) {
      std::fprintf(stderr, "member %u: %s\n", index, wrong.c_str());
      return 12;
    }
    if (!coord::read_table(cell, Txn(t + 1), table)) return 13;
    board.slot(Slot(index)).applied.store(t + 1);
  }
  return 0;
}

class Processes {
 public:
  Processes(const Work& work, std::uint32_t members)
      : shared_(work.plan), pids_(members), ended_(members, false) {
    for (std::uint32_t m = 0; m < members; ++m) {
      pids_[m] = fork();
      if (pids_[m] != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(live(shared_.board(), work, m, members));
    }
  }
  ~Processes() {
    for (std::uint32_t m = 0; m < pids_.size(); ++m)
      if (!ended_[m]) {
        kill(pids_[m], SIGKILL);
        waitpid(pids_[m], nullptr, 0);
      }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Kills, confirms, announces. False: it had ended already.
  bool murder(std::uint32_t victim) {
    kill(pids_[victim], SIGKILL);
    const int status = join(victim);
    if (!WIFSIGNALED(status)) return false;
    shared_.announce_death(WorkerUid(victim + 1));
    return true;
  }
  int join(std::uint32_t m) {
    int status = -1;
    waitpid(pids_[m], &status, 0);
    ended_[m] = true;
    return status;
  }
  bool ended(std::uint32_t m) const { return ended_[m]; }
  std::uint64_t applied(std::uint32_t m) const {
    return shared_.board().slot(Slot(m)).applied.load();
  }
  std::size_t size() const { return pids_.size(); }

 private:
  SharedBoard shared_;
  std::vector<pid_t> pids_;
  std::vector<bool> ended_;
};

void wait_for_step(const Processes& processes, std::uint32_t member, std::uint64_t step) {
  const Deadline deadline = Deadline::in(20s);
  while (processes.applied(member) < step && !deadline.passed()) std::this_thread::sleep_for(100us);
  ASSERT_GE(processes.applied(member), step);
}

TEST(ExchangeProcesses, UndisturbedMembersAgree) {
  for (const std::uint32_t members : {2U, 3U, 5U}) {
    Processes processes({awkward_plan(5), Values::kAdversarial}, members);
    for (std::uint32_t m = 0; m < members; ++m) EXPECT_EQ(processes.join(m), 0);
  }
}

TEST(ExchangeProcesses, AKilledMembersStepIsFinishedByTheOthers) {
  std::mt19937 random(20);
  int killed = 0;
  for (std::uint32_t round = 0; round < 24; ++round) {
    const std::uint32_t members = 3 + round % 3;
    const std::uint32_t victim = round % members;
    SCOPED_TRACE("round " + std::to_string(round));
    Processes processes({awkward_plan(6), Values::kAdversarial}, members);
    wait_for_step(processes, victim, 1 + random() % 20);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    killed += processes.murder(victim) ? 1 : 0;
    for (std::uint32_t m = 0; m < members; ++m) {
      if (!processes.ended(m)) {
        EXPECT_EQ(processes.join(m), 0);
      }
    }
  }
  EXPECT_GE(killed, 12);  // else the moments are chosen badly and nothing was tested
}

TEST(ExchangeProcesses, OneSurvivorOfFourFinishesAlone) {
  std::mt19937 random(7);
  for (std::uint32_t round = 0; round < 8; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Processes processes({awkward_plan(8), Values::kAdversarial}, 4);
    const std::uint32_t survivor = round % 4;
    for (std::uint32_t victim = 0; victim < 4; ++victim) {
      if (victim == survivor) continue;
      wait_for_step(processes, survivor, 3 * (victim + 1));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      processes.murder(victim);
    }
    EXPECT_EQ(processes.join(survivor), 0);
  }
}

}  // namespace
}  // namespace lockstep::conformance
