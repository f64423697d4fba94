// One suite over both groups. Members are threads.
#include "comm/group.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/member.h"
#include "conformance/shared_board.h"

namespace lockstep::conformance {
namespace {

struct ShmEngine {
  ShmEngine() : board(comm::ExchangePlan{}) {}
  void open(const coord::Table& members) { table = members; }
  std::unique_ptr<comm::Group> make(WorkerUid uid) {
    return comm::make_shm_group(board.board(), board.board().data(), table, uid);
  }
  void kill(WorkerUid uid) { board.announce_death(uid); }
  SharedBoard board;
  coord::Table table;
};

struct FakeEngine {
  void open(const coord::Table& members) { world = comm::make_fake_group_world(members); }
  std::unique_ptr<comm::Group> make(WorkerUid uid) { return comm::make_fake_group(world, uid); }
  void kill(WorkerUid uid) { comm::fake_kill(*world, uid); }
  std::shared_ptr<comm::FakeGroupWorld> world;
};

using Member = std::function<void(comm::Group&, std::uint32_t rank)>;

template <class Engine>
void run(Engine& engine, const coord::Table& table, const Member& member) {
  engine.open(table);
  std::vector<std::unique_ptr<comm::Group>> groups;
  for (const coord::Member& m : table.members) groups.push_back(engine.make(m.uid));
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < groups.size(); ++r)
    threads.emplace_back([&, r] { member(*groups[r], r); });
  for (std::thread& thread : threads) thread.join();
}

#define ASSERT_OK(expression)                 \
  do {                                        \
    const Status s = (expression);            \
    ASSERT_TRUE(s.ok()) << s.error().message; \
  } while (false)

template <class Engine>
class GroupTest : public testing::Test {};
struct Names {
  template <class Engine>
  static std::string GetName(int) {
    return std::is_same_v<Engine, ShmEngine> ? "Shm" : "Fake";
  }
};
using Engines = testing::Types<ShmEngine, FakeEngine>;
TYPED_TEST_SUITE(GroupTest, Engines, Names);

// Bytes that tell rank, place and call.
std::byte pattern(std::uint32_t rank, std::uint64_t i, std::uint64_t call) {
  return static_cast<std::byte>(mix(i * 64 + rank * 7 + call) & 0xff);
}

constexpr std::uint64_t kSizes[] = {0, 1, 3, 17, 1001, 40000, 150001};

void reduce_and_check(comm::Group& group, std::uint32_t rank, DType dtype, std::uint64_t count,
                      std::size_t shift, std::uint64_t call) {
  const std::size_t size = comm::size_of(dtype);
  const auto w = static_cast<std::uint32_t>(group.world_size());
  std::vector<std::byte> memory(count * size + shift);
  const std::span<std::byte> data = std::span(memory).subspan(shift);  // unaligned for shift 1
  for (std::uint64_t i = 0; i < count; ++i)
    put(data.data(), dtype, i, leaf_value(Values::kAdversarial, dtype, call, rank, 0, i));
  ASSERT_OK(group.all_reduce(data, dtype, soon()));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t expected =
        node_value(Values::kAdversarial, dtype, call, w, root_of(w), 0, i);
    wrong += std::memcmp(data.data() + i * size, &expected, size) != 0 ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U) << count << " elements, rank " << rank;
}

TYPED_TEST(GroupTest, AllReduceGivesTheTreesBits) {
  for (std::uint32_t w = 1; w <= 8; ++w) {
    TypeParam engine;
    run(engine, table_of(Txn(0), w), [](comm::Group& group, std::uint32_t rank) {
      std::uint64_t call = 0;
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16})
        for (const std::uint64_t count : kSizes)
          if (count <= 2000 || dtype == DType::kFloat32)
            reduce_and_check(group, rank, dtype, count, call % 2, call), ++call;
    });
  }
}

TYPED_TEST(GroupTest, SixtyFourMegabytes) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 2), [](comm::Group& group, std::uint32_t rank) {
    std::vector<float> data(16 << 20);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>((rank + 1) * (i % 1009));
    ASSERT_OK(group.all_reduce(std::as_writable_bytes(std::span(data)), DType::kFloat32, soon()));
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < data.size(); ++i)
      wrong += data[i] != static_cast<float>(3 * (i % 1009)) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
  });
}

TYPED_TEST(GroupTest, BroadcastGatherAndBarrierInAnyMixture) {
  for (const std::uint32_t w : {1U, 2U, 3U, 5U}) {
    TypeParam engine;
    run(engine, table_of(Txn(0), w), [&](comm::Group& group, std::uint32_t rank) {
      EXPECT_EQ(group.rank().value(), static_cast<int>(rank));
      EXPECT_EQ(group.world_size(), static_cast<int>(w));
      std::uint64_t call = 0;
      for (const std::uint64_t bytes : {0UL, 1UL, 7UL, 4097UL, 300001UL})
        for (std::uint32_t root = 0; root < w; ++root) {
          std::vector<std::byte> data(bytes);
          for (std::uint64_t i = 0; i < bytes; ++i) data[i] = pattern(rank, i, call);
          ASSERT_OK(group.broadcast(data, 0, Rank(static_cast<int>(root)), soon()));
          for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], pattern(root, i, call));
          std::vector<std::byte> mine(bytes), all(bytes * w);
          for (std::uint64_t i = 0; i < bytes; ++i) mine[i] = pattern(rank, i, call + 1);
          ASSERT_OK(group.all_gather(mine, all, 0, soon()));
          for (std::uint32_t r = 0; r < w; ++r)
            for (std::uint64_t i = 0; i < bytes; ++i)
              ASSERT_EQ(all[r * bytes + i], pattern(r, i, call + 1));
          if (root % 2 == 0) ASSERT_OK(group.barrier(soon()));
          call += 2;
        }
    });
  }
}

TYPED_TEST(GroupTest, ABarrierHoldsUntilAllHaveCome) {
  TypeParam engine;
  std::atomic<int> arrived{0};
  run(engine, table_of(Txn(0), 3), [&](comm::Group& group, std::uint32_t rank) {
    for (int round = 1; round <= 50; ++round) {
      if (rank == 2 && round % 10 == 0) std::this_thread::sleep_for(1ms);
      arrived.fetch_add(1);
      ASSERT_OK(group.barrier(soon()));
      EXPECT_GE(arrived.load(), 3 * round);
      ASSERT_OK(group.barrier(soon()));
    }
  });
}

TYPED_TEST(GroupTest, UnequalCallsAreNamedOnBothSides) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 3, 4), [](comm::Group& group, std::uint32_t rank) {
    std::vector<std::byte> data(rank == 1 ? 8 : 16);
    const Status status = group.all_reduce(data, DType::kFloat32, soon());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(status.error().message.find("8 bytes of float32"), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find("16 bytes of float32"), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find("generation 4"), std::string::npos)
        << status.error().message;
    const Status later = group.barrier(soon());
    ASSERT_FALSE(later.ok());
    EXPECT_EQ(later.error().message, status.error().message);
  });
}

TYPED_TEST(GroupTest, UnequalElementTypesAreNamedToo) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 3), [](comm::Group& group, std::uint32_t rank) {
    const std::vector<std::byte> mine(8);
    std::vector<std::byte> all(24);
    const Status status = group.all_gather(mine, all, rank == 2 ? 5 : 8, soon());
    ASSERT_FALSE(status.ok());
    for (const char* type : {"element type 5", "element type 8"})
      EXPECT_NE(status.error().message.find(type), std::string::npos) << status.error().message;
  });
}

TYPED_TEST(GroupTest, BadArgumentsAreRefused) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 1), [](comm::Group& group, std::uint32_t) {
    std::vector<std::byte> data(6);
    EXPECT_FALSE(group.all_reduce(data, DType::kFloat32, soon()).ok());
    EXPECT_FALSE(group.broadcast(data, 0, Rank(1), soon()).ok());
    EXPECT_FALSE(group.broadcast(data, 0, Rank(-1), soon()).ok());
    EXPECT_FALSE(group.all_gather(data, std::span(data).subspan(1), 0, soon()).ok());
    EXPECT_TRUE(group.barrier(soon()).ok());  // the caller's mistake, not the group's end
  });
}

// The victim makes `calls` good calls, is dead, and the others fail with the same cause from then
// on; then the survivors go on in a new generation in the same memory.
TYPED_TEST(GroupTest, ADeathFailsPendingAndLaterCallsWithOneCause) {
  for (std::uint32_t victim = 0; victim < 3; ++victim)
    for (const int calls : {0, 1, 4}) {
      SCOPED_TRACE("victim " + std::to_string(victim) + " after " + std::to_string(calls) +
                   " calls");
      TypeParam engine;
      std::atomic<int> pending{0};
      run(engine, table_of(Txn(0), 3), [&](comm::Group& group, std::uint32_t rank) {
        for (int i = 0; i < calls; ++i)
          reduce_and_check(group, rank, DType::kFloat32, 40000, 0, static_cast<std::uint64_t>(i));
        if (rank == victim) {
          while (pending.load() < 2) std::this_thread::yield();
          std::this_thread::sleep_for(2ms);
          engine.kill(WorkerUid(victim + 1));
          return;
        }
        std::vector<float> data(100000);
        pending.fetch_add(1);
        const Status status =
            group.all_reduce(std::as_writable_bytes(std::span(data)), DType::kFloat32, soon());
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().kind, ErrorKind::kPeerLost);
        EXPECT_NE(status.error().message.find("worker " + std::to_string(victim + 1)),
                  std::string::npos)
            << status.error().message;
        for (const Status& later : {group.barrier(soon()), group.status()}) {
          ASSERT_FALSE(later.ok());
          EXPECT_EQ(later.error().message, status.error().message);
        }
      });
      coord::Table rest = table_of(Txn(1), 3, 2);
      rest.members.erase(rest.members.begin() + victim);
      run(engine, rest, [](comm::Group& group, std::uint32_t rank) {
        EXPECT_EQ(group.generation(), Generation(2));
        for (std::uint64_t i = 0; i < 3; ++i)
          reduce_and_check(group, rank, DType::kFloat32, 40000, 1, 100 + i);
      });
    }
}

TYPED_TEST(GroupTest, AbortEndsAPendingCallAndSticks) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 2), [](comm::Group& group, std::uint32_t rank) {
    if (rank == 1) return;  // never comes
    std::thread other([&] {
      std::this_thread::sleep_for(10ms);
      group.abort({ErrorKind::kAborted, "enough"});
      group.abort({ErrorKind::kAborted, "too late"});
    });
    const Status status = group.barrier(soon());
    other.join();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "enough");
    EXPECT_EQ(group.barrier(soon()).error().message, "enough");
    EXPECT_EQ(group.status().error().message, "enough");
  });
}

TYPED_TEST(GroupTest, ADeadlineIsKept) {
  TypeParam engine;
  run(engine, table_of(Txn(0), 2), [](comm::Group& group, std::uint32_t rank) {
    if (rank == 1) return;  // never comes
    const Status status = group.barrier(Deadline::in(20ms));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kTimedOut);
    EXPECT_NE(status.error().message.find("barrier"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep::conformance
