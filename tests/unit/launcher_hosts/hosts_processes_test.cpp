// Runs on three hosts, each with a real process for its link: whatever is done to links, hosts and
// ports, all sums are those of one host, bit for bit, and nothing is left behind.
#include "hosts_processes.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <string_view>

#include "base/processes.h"
#include "conformance/cluster.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using conformance::kDeaths;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class HostsProcesses : public testing::Test {
 protected:
  // No child is left, neither living nor unreaped.
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
};

Shape shape_of(std::uint64_t transactions, std::uint64_t seed = 1) {
  return {.workers = {2, 1, 3},
          .virtual_workers = seed % 2 == 0 ? 8U : 13U,
          .transactions = transactions,
          .sets = seed % 2 + 1,
          .evaluations = 4,
          .seed = seed};
}

void start(Machines& run) {
  run.start_links();
  run.start_workers();
}

// Links are killed before kBorder; nothing behind it comes to pass without them.
constexpr std::uint64_t kBorder = 60, kTransactions = 100;

TEST_F(HostsProcesses, UnequalHostsGiveTheBitsOfOne) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Machines run(shape_of(12, seed));
    start(run);
    run.finish();
    for (std::uint32_t h = 0; h < 3; ++h) {
      EXPECT_THAT(run.host(h).ends, IsEmpty());
      EXPECT_THAT(run.host(h).working, SizeIs(2));
    }
  }
}

// Each of them once, and one while the workers still start.
TEST_F(HostsProcesses, ALinkIsKilledAndStartedAgain) {
  Machines run(shape_of(kTransactions));
  run.start_links();
  ::kill(run.host(1).link->pid(), SIGKILL);
  run.make_workers();
  run.stop_before(kBorder);
  run.start_workers();
  for (std::uint32_t h = 0; h < 3; ++h) {
    ASSERT_TRUE(run.reach(h, 10 + 10 * h));
    const std::size_t ends = run.host(h).ends.size();
    ::kill(run.host(h).link->pid(), SIGKILL);
    ASSERT_TRUE(run.serve([&] { return run.host(h).ends.size() > ends; }));
    EXPECT_THAT(run.host(h).ends.back(), HasSubstr("was ended by SIGKILL"));
  }
  run.stop_before(kTransactions);
  run.finish();
  EXPECT_THAT(run.host(1).ends, SizeIs(2));
}

TEST_F(HostsProcesses, ALinkIsStopped) {
  Machines run(shape_of(kTransactions, 2));
  run.host(0).stop_grace = 200ms;
  run.host(2).stop_grace = 60s;
  run.start_links();
  run.make_workers();
  run.stop_before(kBorder);
  run.start_workers();
  ASSERT_TRUE(run.reach(2, 10));
  const pid_t paused = run.host(2).link->pid();
  ::kill(paused, SIGSTOP);
  run.serve([&] { return stat_of(paused)->state == 'T'; });
  ::kill(paused, SIGCONT);
  ASSERT_TRUE(run.reach(0, 20));
  ::kill(run.host(0).link->pid(), SIGSTOP);
  ASSERT_TRUE(run.serve([&] { return !run.host(0).ends.empty(); }));
  EXPECT_THAT(run.host(0).ends.back(), HasSubstr("was stopped for 200 ms"));
  run.stop_before(kTransactions);
  run.finish();
  EXPECT_EQ(run.host(2).link->pid(), paused);
}

TEST_F(HostsProcesses, AWrongCookieIsToldAndKeepsThePairApart) {
  Machines run(shape_of(12, 3));
  run.mistaken = 1;
  start(run);
  // Who dials sees first that the other one does not have it, and says nothing of its own.
  const auto told = Contains(HasSubstr("another cookie than this pair's"));
  const auto left = Contains(HasSubstr("closed the connection before it had said who it is"));
  ASSERT_TRUE(run.serve([&] {
    return testing::Matches(left)(run.host(0).lines) && testing::Matches(told)(run.host(1).lines);
  }));
  EXPECT_TRUE(run.serve([&] { return run.host(0).working.size() == 1; }));
  EXPECT_THAT(run.host(0).working, ElementsAre(2));
  EXPECT_EQ(run.host(1).newest(), 0U) << "it has got what is not for it";
  run.mistaken.reset();
  run.order(1);
  run.finish();
}

// Connections to the port of a host: garbage, what begins as a hello does, giant lengths, nothing.
std::vector<UniqueFd> strangers(int port, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<UniqueFd> all;
  const auto address = control::Address::numeric("127.0.0.1", port);
  for (int i = 0; i < 150; ++i) {
    UniqueFd& socket = all.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address->data(), address->size()), 0);
    std::string bytes(i % 5 == 0 ? 0 : 1 + random() % 400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    constexpr std::string_view kMagic = "LSLINK\x03\n";
    if (i % 3 == 0) bytes.replace(0, std::min(bytes.size(), kMagic.size()), kMagic);
    // It may have been turned away already.
    (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return all;
}

TEST_F(HostsProcesses, StrangersAtThePortsDisturbNobody) {
  Machines run(shape_of(40, 4));
  run.start_links();
  const auto early = strangers(run.host(0).port(), 1);
  run.start_workers();
  ASSERT_TRUE(run.reach(0, 10));
  const auto later = strangers(run.host(1).port(), 2);
  run.finish();
  for (std::uint32_t h = 0; h < 2; ++h) {
    EXPECT_THAT(run.host(h).ends, IsEmpty());
    EXPECT_THAT(run.host(h).lines, Contains(HasSubstr("it is no link of Lockstep's")));
    EXPECT_LE(run.host(h).lines.size(), 64U + 8U);  // what is remembered, and the pairs' own
  }
}

// So the publisher of the next table, on whichever host, waits for one and lists it.
TEST_F(HostsProcesses, WhatAHostSaysOfItsNewcomersIsToldToAll) {
  const Shape shape = shape_of(12, 5);
  Machines run(shape);
  run.start_links();
  run.make_workers();
  const coord::Board board = run.host(2).workers->board();
  const coord::Member comer{coord::uid_of({2, 1}, 9), Slot(5)},
      other{coord::uid_of({2, 1}, 8), Slot(5)};
  coord::Table wish = conformance::first_table(shape);
  wish.members.push_back(comer);
  coord::write_proposal(board.header().proposal, wish);
  board.slot(comer.slot).uid.store(comer.uid.value());
  const auto told = [&](std::uint64_t copied, std::uint64_t ready) {
    ring(board.header().link_bell);
    return run.serve([&] {
      for (std::uint32_t h = 0; h < 3; ++h) {
        const auto newcomer = run.host(h).workers->exchange(0).newcomer(comer);
        if (newcomer.copied != copied || newcomer.ready != ready) return false;
      }
      return true;
    });
  };
  run.host(2).workers->exchange(0).heal_mark().store(1);
  EXPECT_TRUE(told(1, 0));
  ::kill(run.host(2).link->pid(), SIGKILL);  // also what is set while there is none
  board.slot(comer.slot).ready_txn.store(1);
  EXPECT_TRUE(told(1, 1));
  EXPECT_EQ(run.host(0).workers->exchange(0).newcomer(other).ready, 0U);
  run.start_workers();
  run.finish();
}

// A host that is in no table: another one's copy of the state crosses to its board, and who
// publishes the next table knows that it is on its way, and when it is loaded.
TEST_F(HostsProcesses, ACopyOfTheStateCrossesToAHostThatComes) {
  Shape shape = shape_of(12, 6);
  shape.state_bytes = 5'000'001;
  Machines run(shape);
  run.comes = 2;
  run.start_links();
  run.make_workers();
  const coord::Member comer{coord::uid_of({2, 1}, 1), Slot(0)};
  run.host(0).memory->look();
  const coord::Table first = *run.host(0).memory->table(0);
  coord::Table wish = first;
  wish.members.push_back(comer);
  for (std::uint32_t h = 0; h < 3; ++h)
    coord::write_proposal(run.host(h).workers->board().header().proposal, wish);
  comm::Exchange &donor = run.host(1).workers->exchange(0),
                 &there = run.host(2).workers->exchange(0);
  const coord::Board board = run.host(2).workers->board();
  EXPECT_EQ(run.host(2).memory->first(), link::kNever);
  ASSERT_TRUE(run.serve([&] {
    run.host(1).memory->look();
    return run.host(1).memory->table(0) != nullptr;
  }));
  for (const std::uint64_t txn : {0U, 1U}) {
    coord::Table table = first;
    table.txn = Txn(txn);
    if (txn > 0) coord::write_table(run.host(1).workers->board().table(Txn(txn)), table);
    donor.heal_mark().store(0);
    std::mt19937_64 random(txn);
    for (std::byte& byte : donor.heal_region()) byte = std::byte(random());
    donor.heal_mark().store(txn + 1);
    ring(run.host(1).memory->bell());
    if (txn > 0) ::kill(run.host(2).link->pid(), SIGKILL);
    ASSERT_TRUE(run.serve([&] { return there.heal_mark().load() == txn + 1; }));
    EXPECT_TRUE(std::ranges::equal(there.heal_region(), donor.heal_region()));
    EXPECT_TRUE(coord::read_table(board.table(Txn(txn)), Txn(txn), table));
    run.host(2).memory->look();
    EXPECT_EQ(run.host(2).memory->first(), txn);
    EXPECT_TRUE(run.serve(
        [&] { return run.host(0).workers->exchange(0).newcomer(comer).copied == txn + 1; }));
  }
  EXPECT_EQ(run.host(0).workers->exchange(0).newcomer(comer).ready, 0U);
  board.slot(comer.slot).uid.store(comer.uid.value());
  board.slot(comer.slot).ready_txn.store(2);
  ring(board.header().link_bell);
  EXPECT_TRUE(
      run.serve([&] { return run.host(0).workers->exchange(0).newcomer(comer).ready == 2; }));
}

// Its workers die at each phase of a step.
TEST_F(HostsProcesses, AHostIsKilledWhole) {
  std::uint64_t fills = 0;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const std::uint32_t victim = seed % 3;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machines run(shape_of(10, seed), {{victim, std::nullopt, 3, kDeaths[seed % 5]}});
    start(run);
    run.lose(victim);
    run.finish();
    fills += run.fills();
    if (HasFailure()) return;
  }
  RecordProperty("fills", static_cast<int>(fills));
}

TEST_F(HostsProcesses, ALinkDiesWhileAHostIsTakenOut) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::uint32_t victim = seed % 3, other = (victim + 1 + seed / 3) % 3;
    Machines run(shape_of(10, seed), {{victim, std::nullopt, 3, kDeaths[(seed + 2) % 5]}});
    start(run);
    run.host(victim).workers->await();
    ::kill(run.host(other).link->pid(), SIGKILL);
    run.lose(victim);
    run.finish();
    EXPECT_THAT(run.host(other).ends, SizeIs(1));
  }
}

}  // namespace
}  // namespace lockstep::launcher
