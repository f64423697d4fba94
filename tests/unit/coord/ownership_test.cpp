#include "coord/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>

#include "unit/coord/leaves.h"

namespace lockstep::coord {
namespace {

Table table_of(std::uint32_t members) {
  Table table{Txn(4), Generation(1), kNone, {}};
  for (std::uint32_t m = 0; m < members; ++m) table.members.push_back({WorkerUid(m + 1), Slot(m)});
  return table;
}

void check_pieces(const Ownership& ownership, std::uint32_t items) {
  std::uint32_t at = 0;
  for (const Piece& piece : ownership.pieces()) {
    const auto [begin, end] = range(piece.node, items);
    ASSERT_EQ(begin, at);
    ASSERT_GT(end, at);
    for (std::uint32_t leaf = begin; leaf < end; ++leaf)
      ASSERT_EQ(ownership.owner(leaf), piece.member);
    at = end;
  }
  ASSERT_EQ(at, items);
}

void check_items(const Ownership& ownership, std::uint32_t items, std::uint32_t members) {
  std::vector<int> seen(items, 0);
  for (std::uint32_t m = 0; m < members; ++m) {
    EXPECT_TRUE(ownership.alive(m) || ownership.items_of(m).empty());
    for (const std::uint32_t item : ownership.items_of(m)) {
      ASSERT_EQ(ownership.owner(item), m);
      ++seen[item];
    }
  }
  for (std::uint32_t i = 0; i < items; ++i) {
    ASSERT_EQ(seen[i], 1) << "item " << i;
    ASSERT_TRUE(ownership.alive(ownership.owner(i)));
  }
}

// What live members own stays theirs after one more death, in the same order; chunks move only from
// the dead.
void check_moves(const Ownership& before, const Ownership& after, std::uint32_t members) {
  for (std::uint32_t m = 0; m < members; ++m) {
    if (!after.alive(m)) continue;
    const auto& old_items = before.items_of(m);
    const auto& new_items = after.items_of(m);
    ASSERT_LE(old_items.size(), new_items.size());
    ASSERT_TRUE(std::equal(old_items.begin(), old_items.end(), new_items.begin()));
  }
  for (const std::uint32_t chunks : {1U, 2U, 5U, 40U})
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
      for (const std::uint32_t bucket : {0U, 1U, 7U}) {
        const std::uint32_t was = before.chunk_owner(chunk, chunks, bucket);
        const std::uint32_t is = after.chunk_owner(chunk, chunks, bucket);
        ASSERT_TRUE(after.alive(is));
        ASSERT_TRUE(is == was || !after.alive(was));
      }
}

TEST(Ownership, EveryVAndWInRandomOrdersOfDeath) {
  std::mt19937 random(11);
  for (std::uint32_t v = 1; v <= 16; ++v)
    for (std::uint32_t w = 1; w <= v; ++w)
      for (int round = 0; round < 6; ++round) {
        SCOPED_TRACE(testing::Message() << "V " << v << ", W " << w << ", round " << round);
        const Table table = table_of(w);
        std::vector<std::uint32_t> order(w);
        for (std::uint32_t m = 0; m < w; ++m) order[m] = m;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<WorkerUid> dead{WorkerUid(999)};  // not in the table: ignored
        Ownership before(table, v, Stay(), dead);
        check_items(before, v, w);
        check_pieces(before, v);
        for (std::uint32_t d = 0; d + 1 < w; ++d) {
          dead.push_back(table.members[order[d]].uid);
          const Ownership after(table, v, Stay(), dead);
          ASSERT_EQ(after.live_count(), w - d - 1);
          ASSERT_TRUE(after.alive(after.first_live().value()));
          for (std::uint32_t m = 0; m < *after.first_live(); ++m) ASSERT_FALSE(after.alive(m));
          check_items(after, v, w);
          check_pieces(after, v);
          check_moves(before, after, w);
          before = after;
        }
      }
}

TEST(Ownership, BlocksAreEvenAndContiguous) {
  for (std::uint32_t v = 1; v <= 20; ++v)
    for (std::uint32_t w = 1; w <= v; ++w) {
      const Ownership ownership(table_of(w), v, Stay(), {});
      std::uint32_t at = 0;
      for (std::uint32_t m = 0; m < w; ++m) {
        ASSERT_EQ(ownership.block_size(m), v / w + (m < v % w ? 1 : 0));
        for (const std::uint32_t item : ownership.items_of(m)) ASSERT_EQ(item, at++);
      }
    }
}

// Also of one that was dead before it began.
TEST(Ownership, ABlockStaysWhereItWasWhoeverHasItsItems) {
  const std::vector<WorkerUid> deaths{WorkerUid(2)};
  const Ownership ownership(table_of(3), 7, {}, deaths);
  EXPECT_TRUE(ownership.items_of(1).empty());
  std::uint32_t first = 0;
  for (std::uint32_t m = 0; m < 3; ++m) {
    EXPECT_EQ(ownership.block_first(m), first);
    first += ownership.block_size(m);
  }
  EXPECT_EQ(first, 7U);
}

TEST(Ownership, ADeathsItemsGoToThoseWithTheFewest) {
  const std::vector<WorkerUid> dead{WorkerUid(1)};
  const Ownership ownership(table_of(3), 8, Stay(), dead);  // blocks 3, 3, 2
  EXPECT_EQ(ownership.items_of(1), (std::vector<std::uint32_t>{3, 4, 5, 1}));
  EXPECT_EQ(ownership.items_of(2), (std::vector<std::uint32_t>{6, 7, 0, 2}));
}

TEST(Ownership, FewerItemsThanMembersAndNone) {
  const Ownership few(table_of(5), 2, Stay(), {});
  check_items(few, 2, 5);
  const Ownership none(table_of(5), 0, Stay(), {});
  EXPECT_TRUE(none.items_of(0).empty());
  const std::vector<WorkerUid> dead{WorkerUid(1), WorkerUid(2)};
  check_items(Ownership(table_of(5), 2, Stay(), dead), 2, 5);
}

TEST(Ownership, AllDeadLeavesNobody) {
  const std::vector<WorkerUid> dead{WorkerUid(2), WorkerUid(1)};
  const Ownership ownership(table_of(2), 4, Stay(), dead);
  EXPECT_EQ(ownership.live_count(), 0U);
  EXPECT_EQ(ownership.first_live(), std::nullopt);
  EXPECT_TRUE(ownership.pieces().empty());
}

TEST(Ownership, ChunksAreSharedEvenlyAndSmallBucketsSpread) {
  const Ownership ownership(table_of(4), 8, Stay(), {});
  std::vector<int> count(4, 0);
  for (std::uint32_t chunk = 0; chunk < 100; ++chunk) ++count[ownership.chunk_owner(chunk, 100, 0)];
  EXPECT_EQ(count, std::vector<int>(4, 25));
  std::set<std::uint32_t> owners;
  for (std::uint32_t bucket = 0; bucket < 4; ++bucket)
    owners.insert(ownership.chunk_owner(0, 1, bucket));
  EXPECT_EQ(owners.size(), 4U);
}

}  // namespace
}  // namespace lockstep::coord
