// Ownership in two levels: what all hosts' boards agree on, and what stays inside a host.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "coord/ownership.h"

namespace lockstep::coord {
namespace {

// Up to `most`, evenly.
std::uint32_t up_to(std::uint32_t most, std::mt19937& random) {
  return static_cast<std::uint32_t>(random() % (most + 1ULL));
}

Stay stay_of_host(std::uint32_t host) { return {static_cast<std::uint16_t>(host), 3}; }

// One host for each entry: as many members, of so many asked for.
Table table_of(const std::vector<std::uint32_t>& members, const std::vector<std::uint32_t>& asked) {
  Table table{Txn(4), Generation(1), kNone, {}};
  for (std::uint32_t h = 0; h < members.size(); ++h) {
    table.hosts.push_back({stay_of_host(h), asked[h]});
    for (std::uint32_t i = 0; i < members[h]; ++i)
      table.members.push_back({uid_of(stay_of_host(h), i + 1), Slot(i)});
  }
  return table;
}

// The rule as it was with one host, and as docs/design/protocol.md has it.
struct Plain {
  Plain(std::uint32_t members, std::uint32_t items, const std::vector<std::uint32_t>& deaths)
      : alive(members, true), items_of(members) {
    std::uint32_t item = 0;
    for (std::uint32_t m = 0; m < members; ++m)
      for (std::uint32_t i = 0; i < items / members + (m < items % members ? 1 : 0); ++i)
        items_of[m].push_back(item++);
    for (const std::uint32_t lost : deaths) {
      alive[lost] = false;
      std::vector<std::uint32_t> orphans = std::exchange(items_of[lost], {});
      std::sort(orphans.begin(), orphans.end());
      std::vector<std::uint32_t> live;
      for (std::uint32_t m = 0; m < members; ++m)
        if (alive[m]) live.push_back(m);
      live_after.push_back(live);
      for (const std::uint32_t orphan : orphans)
        items_of[*std::min_element(live.begin(), live.end(), [&](auto a, auto b) {
          return items_of[a].size() < items_of[b].size();
        })].push_back(orphan);
    }
    order = deaths;
  }
  std::uint32_t chunk_owner(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket) const {
    const auto members = static_cast<std::uint32_t>(alive.size());
    std::uint32_t owner = chunks < members ? (chunk + bucket) % members : chunk * members / chunks;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (order[i] == owner) owner = live_after[i][chunk % live_after[i].size()];
    return owner;
  }
  std::vector<bool> alive;
  std::vector<std::vector<std::uint32_t>> items_of, live_after;
  std::vector<std::uint32_t> order;
};

TEST(Hosts, OneIsTheRuleOfOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t w = 1 + up_to(8, random), v = w + up_to(19, random);
    std::vector<std::uint32_t> order(w);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    order.resize(random() % w);
    Table named = table_of({w}, {w + 2});
    std::vector<WorkerUid> deaths;
    for (const std::uint32_t m : order) deaths.push_back(named.members[m].uid);
    const Plain plain(w, v, order);
    Table unnamed = named;
    unnamed.hosts.clear();
    for (const Table& table : {named, unnamed}) {
      const Ownership ownership(table, v, stay_of_host(0), deaths);
      for (std::uint32_t m = 0; m < w; ++m) {
        ASSERT_EQ(ownership.alive(m), plain.alive[m]);
        ASSERT_EQ(ownership.items_of(m), plain.items_of[m]);
      }
      for (const std::uint32_t chunks : {1U, 3U, 8U, 50U})
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
          for (std::uint32_t bucket = 0; bucket < 3; ++bucket)
            ASSERT_EQ(ownership.chunk_owner(chunk, chunks, bucket),
                      plain.chunk_owner(chunk, chunks, bucket));
    }
  }
}

// A run with hosts, what each of their boards has appended, and who still lives.
struct Boards {
  explicit Boards(std::mt19937& random) {
    const std::uint32_t hosts = 1 + up_to(3, random);
    for (std::uint32_t h = 0; h < hosts; ++h) {
      asked.push_back(1 + up_to(3, random));
      members.push_back(1 + up_to(asked.back() - 1, random));
    }
    const std::uint32_t all = std::accumulate(asked.begin(), asked.end(), 0U);
    items = all + up_to(39, random);
    table = table_of(members, asked);
    deaths.resize(hosts);
    for (std::uint32_t h = 0; h < hosts; ++h) live.push_back(h);
  }
  std::vector<Ownership> boards() const {
    std::vector<Ownership> all;
    for (std::uint32_t h = 0; h < members.size(); ++h)
      all.emplace_back(table, items, stay_of_host(h), deaths[h]);
    return all;
  }
  std::uint32_t host_of(std::uint32_t member) const {
    return stay_of(table.members[member].uid).host;
  }
  void lose_host(std::uint32_t host) {
    std::erase(live, host);
    for (auto& list : deaths) list.push_back(death_of(stay_of_host(host)));
  }
  void lose_worker(std::uint32_t host, std::uint32_t number) {
    deaths[host].push_back(uid_of(stay_of_host(host), number));
  }

  std::vector<std::uint32_t> asked, members, live;
  std::uint32_t items = 0;
  Table table;
  std::vector<std::vector<WorkerUid>> deaths;
};

std::vector<std::uint32_t> chunk_hosts(const Boards& run, const Ownership& board) {
  std::vector<std::uint32_t> hosts;
  for (const std::uint32_t chunks : {1U, 2U, 5U, 40U})
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
      for (const std::uint32_t bucket : {0U, 1U, 7U})
        hosts.push_back(run.host_of(board.chunk_owner(chunk, chunks, bucket)));
  return hosts;
}

std::vector<std::uint32_t> item_hosts(const Boards& run, const Ownership& board) {
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t i = 0; i < run.items; ++i) hosts.push_back(board.host_of(i));
  return hosts;
}

void check_board(const Boards& run, std::uint32_t self, const Ownership& board) {
  std::vector<int> seen(run.items, 0);
  for (std::uint32_t m = 0; m < run.table.members.size(); ++m) {
    ASSERT_EQ(board.is_here(m), run.host_of(m) == self);
    for (const std::uint32_t item : board.items_of(m)) {
      ASSERT_EQ(board.owner(item), m);
      ASSERT_EQ(board.host_of(item), run.host_of(m));
      ++seen[item];
    }
  }
  ASSERT_EQ(seen, std::vector<int>(run.items, 1));
  if (board.live_count() == 0) return;  // its block has nobody, until its host is appended
  std::uint32_t at = 0;
  for (const Piece& piece : board.pieces()) {
    ASSERT_EQ(piece.node.first_leaf(), at);
    const std::uint64_t end = std::min<std::uint64_t>(
        (std::uint64_t{piece.node.index} + 1) << piece.node.level, run.items);
    for (; at < end; ++at)
      ASSERT_EQ(run.host_of(piece.member), board.host_of(at)) << "a piece is of one host";
  }
  ASSERT_EQ(at, run.items);
}

TEST(Hosts, AgreeWhateverDiesInsideThem) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    Boards run(random);
    std::vector<Ownership> before = run.boards();
    for (int event = 0; event < 6; ++event) {
      const std::uint32_t victim = run.live[random() % run.live.size()];
      const bool host = random() % 2 == 0 && run.live.size() > 1;
      if (host)
        run.lose_host(victim);
      else
        run.lose_worker(victim, 1 + up_to(run.members[victim] - 1, random));
      const std::vector<Ownership> after = run.boards();
      const std::vector<std::uint32_t> items = item_hosts(run, after[run.live[0]]);
      const std::vector<std::uint32_t> chunks = chunk_hosts(run, after[run.live[0]]);
      for (const std::uint32_t h : run.live) {
        ASSERT_EQ(item_hosts(run, after[h]), items);
        ASSERT_EQ(chunk_hosts(run, after[h]), chunks);
        ASSERT_NO_FATAL_FAILURE(check_board(run, h, after[h]));
        if (after[h].live_count() == 0) continue;
        for (std::uint32_t i = 0; i < run.items; ++i) {
          const std::uint32_t was = before[h].owner(i), is = after[h].owner(i);
          ASSERT_TRUE(was == is || !after[h].alive(was));
          ASSERT_TRUE(after[h].host_of(i) != h || after[h].alive(is));
        }
      }
      const std::vector<std::uint32_t> items_before = item_hosts(run, before[run.live[0]]);
      const std::vector<std::uint32_t> chunks_before = chunk_hosts(run, before[run.live[0]]);
      if (!host) {
        ASSERT_EQ(items, items_before);
        ASSERT_EQ(chunks, chunks_before);
      }
      for (std::size_t i = 0; i < items.size(); ++i)
        ASSERT_TRUE(items[i] == items_before[i] || (host && items_before[i] == victim));
      for (std::size_t i = 0; i < chunks.size(); ++i)
        ASSERT_TRUE(chunks[i] == chunks_before[i] || (host && chunks_before[i] == victim));
      before = after;
    }
  }
}

TEST(Hosts, ShareByTheWorkersAskedFor) {
  // Of the second one's three workers two live: its block stays that of three.
  const Table table = table_of({1, 2, 2}, {1, 3, 2});
  const Ownership board(table, 12, stay_of_host(1), {});
  EXPECT_EQ(board.block_size(0), 2U);
  EXPECT_EQ(board.items_of(1), (std::vector<std::uint32_t>{2, 3, 4}));
  EXPECT_EQ(board.items_of(2), (std::vector<std::uint32_t>{5, 6, 7}));
  EXPECT_EQ(board.live_count(), 2U);
  EXPECT_EQ(board.first_live(), 0U);
}

TEST(Hosts, WhatAHostLeavesGoesToThoseWithTheFewestForTheirWorkers) {
  const Table table = table_of({1, 3, 2}, {1, 3, 2});
  const std::vector<WorkerUid> deaths{death_of(stay_of_host(2))};
  const Ownership board(table, 12, stay_of_host(0), deaths);  // 2, 6 and 4
  EXPECT_EQ(board.items_of(0), (std::vector<std::uint32_t>{0, 1, 8}));
  std::uint32_t second = 0;
  for (std::uint32_t i = 0; i < 12; ++i) second += board.host_of(i) == 1 ? 1 : 0;
  EXPECT_EQ(second, 9U);
}

// Which came first decides who has what inside the host, and only there.
TEST(Hosts, TheOrderOfDeathsIsTheBoards) {
  const Table table = table_of({2, 1}, {2, 1});
  const WorkerUid worker = uid_of(stay_of_host(0), 1), host = death_of(stay_of_host(1));
  const std::vector<WorkerUid> worker_first{worker, host}, host_first{host, worker};
  const Ownership one(table, 6, stay_of_host(0), worker_first);
  const Ownership other(table, 6, stay_of_host(0), host_first);
  EXPECT_EQ(one.items_of(1), (std::vector<std::uint32_t>{2, 3, 0, 1, 4, 5}));
  EXPECT_EQ(other.items_of(1), (std::vector<std::uint32_t>{2, 3, 5, 0, 1, 4}));
}

// What is lent of a chunk exists with its reader alone, so it stays with that one as long as it
// lives, whoever owns the chunk.
TEST(Hosts, AChunksReaderMovesOnlyWhenItDies) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    Boards run(random);
    std::vector<Ownership> before = run.boards();
    for (int event = 0; event < 5 && run.live.size() > 1; ++event) {
      const std::uint32_t victim = run.live[random() % run.live.size()];
      if (random() % 2 == 0)
        run.lose_host(victim);
      else
        run.lose_worker(victim, 1 + up_to(run.members[victim] - 1, random));
      const std::vector<Ownership> after = run.boards();
      for (const std::uint32_t h : run.live)
        for (std::uint32_t chunk = 0; chunk < 11 && after[h].live_count() > 0; ++chunk) {
          const std::uint32_t was = before[h].chunk_reader(chunk, 11, 1),
                              is = after[h].chunk_reader(chunk, 11, 1),
                              owner = after[h].chunk_owner(chunk, 11, 1);
          ASSERT_TRUE(after[h].is_here(is) && after[h].alive(is));
          ASSERT_TRUE(was == is || !after[h].alive(was));
          ASSERT_TRUE(owner == is || !after[h].is_here(owner));
        }
      before = after;
    }
  }
}

TEST(Hosts, FoldWhatIsTheirBlocks) {
  const Table table = table_of({1, 3}, {1, 3});  // of eight leaves two and six
  EXPECT_EQ(Ownership(table, 8, stay_of_host(0), {}).folded(), (std::vector<Node>{{1, 0}}));
  const std::vector<WorkerUid> deaths{uid_of(stay_of_host(1), 2)};
  const Ownership board(table, 8, stay_of_host(1), deaths);
  EXPECT_EQ(board.folded(), (std::vector<Node>{{1, 1}, {2, 1}}));
  EXPECT_TRUE(board.in_block(2) && board.in_block(7));
  EXPECT_FALSE(board.in_block(1));
  EXPECT_TRUE(Ownership(table, 8, Stay{2, 1}, {}).folded().empty()) << "not in the table";
  EXPECT_TRUE(Ownership(table_of({2}, {2}), 8, stay_of_host(0), {}).folded().empty());
}

TEST(Hosts, AnotherStayOfThatHostIsNotMeant) {
  const Table table = table_of({2, 1}, {2, 1});
  const std::vector<WorkerUid> deaths{death_of({1, 2}), uid_of({0, 2}, 1)};
  const Ownership board(table, 6, stay_of_host(0), deaths);
  EXPECT_EQ(board.live_count(), 2U);
  EXPECT_TRUE(board.alive(2));
  EXPECT_EQ(Ownership(table, 6, Stay{0, 4}, {}).live_count(), 0U) << "that one is not in the table";
}

TEST(Hosts, NobodyPublishesWhileTheFirstHostIsAliveInName) {
  const Table table = table_of({1, 2}, {1, 2});
  const WorkerUid worker = uid_of(stay_of_host(0), 1), host = death_of(stay_of_host(0));
  const std::vector<WorkerUid> empty{worker}, gone{worker, host};
  EXPECT_EQ(Ownership(table, 6, stay_of_host(0), empty).first_live(), std::nullopt);
  EXPECT_EQ(Ownership(table, 6, stay_of_host(1), {}).first_live(), 0U);
  EXPECT_EQ(Ownership(table, 6, stay_of_host(0), gone).first_live(), 1U);
  const std::vector<WorkerUid> all{host, death_of(stay_of_host(1))};
  EXPECT_EQ(Ownership(table, 6, stay_of_host(1), all).first_live(), std::nullopt);
}

TEST(Hosts, ADeathNamesAWorkerOrAHost) {
  const std::vector<WorkerUid> deaths{uid_of({1, 1}, 4), death_of({2, 1})};
  EXPECT_TRUE(is_dead(deaths, uid_of({1, 1}, 4)));
  EXPECT_FALSE(is_dead(deaths, uid_of({1, 1}, 5)));
  EXPECT_TRUE(is_dead(deaths, uid_of({2, 1}, 9)));
  EXPECT_FALSE(is_dead(deaths, uid_of({2, 2}, 9)));
  EXPECT_FALSE(is_dead(deaths, WorkerUid(4))) << "of a run with one host";
}

}  // namespace
}  // namespace lockstep::coord
