// Jobs of any node, with members, blocks and owners of chunks that the test makes up: a run of one
// host has the root's alone.
#include "comm/shm/job.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "conformance/oracle.h"

namespace lockstep::comm::shm {
namespace {

using conformance::node_value;
using conformance::Values;

ExchangePlan plan_of(std::uint32_t virtual_workers) {
  ExchangePlan plan;
  plan.virtual_workers = virtual_workers;
  plan.chunk_bytes = 64;
  plan.buckets = {
      {DType::kFloat32, 40}, {DType::kBFloat16, 100}, {DType::kFloat16, 33}, {DType::kFloat64, 9}};
  return plan;
}

// The engine's memory, with room for one more node behind it.
class Memory {
 public:
  explicit Memory(const ExchangePlan& wanted)
      : plan(wanted), layout(Layout::make(wanted, coord::kBoardBytes).value()) {
    area.values = (layout.end() + 63) / 64 * 64;
    area.chunk_marks = area.values + layout.piece_bytes();
    area.not_finite_marks = area.chunk_marks + 64 * 1024;
    bytes_ = area.not_finite_marks + 4096;
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Memory() { ::munmap(memory_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data() + offset);
  }
  std::uint32_t buckets() const { return static_cast<std::uint32_t>(plan.buckets.size()); }

  void put(std::byte* to, coord::Node node, std::uint32_t b, std::uint64_t txn) const {
    const BucketSpec& spec = plan.buckets[b];
    const std::size_t size = size_of(spec.dtype);
    for (std::uint64_t i = 0; i < spec.count; ++i) {
      const std::uint64_t bits =
          node_value(Values::kAdversarial, spec.dtype, txn, plan.virtual_workers, node, b, i);
      std::memcpy(to + i * size, &bits, size);
    }
  }
  void publish(const PiecePlace& place, std::uint32_t b, std::uint64_t txn) const {
    put(data() + layout.piece(place.slot, place.position, b), place.piece.node, b, txn);
    word(layout.piece_mark(place.slot, place.piece.node.first_leaf(), b)).store(txn + 1);
  }
  bool marked(std::uint32_t b, std::uint64_t txn) const {
    for (std::uint32_t c = 0; c < layout.chunks(b); ++c)
      if (word(layout.chunk_mark(area, b, c)).load() != txn + 1) return false;
    return true;
  }
  // Whether the area has the node's value, bit for bit.
  bool has(coord::Node node, std::uint32_t b, std::uint64_t txn) const {
    std::vector<std::byte> expected(layout.bucket_bytes(b));
    put(expected.data(), node, b, txn);
    return std::memcmp(expected.data(), data() + layout.value(area, b), expected.size()) == 0;
  }

  const ExchangePlan plan;
  const Layout layout;
  Layout::Area area;

 private:
  std::uint64_t bytes_ = 0;
  void* memory_ = nullptr;
};

// Pieces of a host's members, of its block [first, first + count): blocks, and leaves that one has
// adopted from another that is dead.
std::vector<PiecePlace> members_of(std::uint32_t first, std::uint32_t count, std::uint32_t v,
                                   std::mt19937& random) {
  std::vector<PiecePlace> places;
  const std::uint32_t end = first + count;
  for (std::uint32_t slot = 0; first < end; ++slot) {
    const std::uint32_t block = 1 + static_cast<std::uint32_t>(random() % (end - first));
    if (slot > 0 && random() % 4 == 0) {  // slot - 1 adopts this one's leaves, behind its own
      for (std::uint32_t i = 0; i < block; ++i)
        places.push_back({{{0, first + i}, slot - 1}, slot - 1, v - 1 - i});
    } else {
      for (const coord::Node node : coord::cover(first, block, v))
        places.push_back({{node, slot}, slot, node.first_leaf() - first});
    }
    first += block;
  }
  return places;
}

std::vector<PiecePlace> below(coord::Node node, std::uint32_t v,
                              const std::vector<PiecePlace>& all) {
  std::vector<PiecePlace> places;
  const std::uint64_t end =
      std::min<std::uint64_t>((std::uint64_t{node.index} + 1) << node.level, v);
  for (const PiecePlace& place : all)
    if (const std::uint32_t leaf = place.piece.node.first_leaf();
        leaf >= node.first_leaf() && leaf < end)
      places.push_back(place);
  return places;
}

Lent nothing_lent(const Memory& memory) {
  Lent lent;
  for (std::uint32_t b = 0; b < memory.buckets(); ++b)
    lent.sources.emplace_back(memory.layout.chunks(b));
  return lent;
}

// One node by `members` jobs, each with chunks of its own; two transactions, in the second of which
// some values are infinite.
void fold(const Memory& memory, coord::Node node, const std::vector<PiecePlace>& places,
          std::mt19937& random) {
  const std::uint32_t members = 1 + static_cast<std::uint32_t>(random() % 3);
  std::vector<std::unique_ptr<Job>> jobs;
  for (std::uint32_t m = 0; m < members; ++m) {
    jobs.push_back(std::make_unique<Job>(memory.plan, memory.layout, memory.data()));
    jobs.back()->assign({node, memory.area}, places, [&](std::uint32_t b, std::uint32_t chunk) {
      return (b + chunk) % members == m;
    });
  }
  const Lent lent = nothing_lent(memory);
  for (std::uint64_t txn = 4; txn < 6; ++txn) {
    for (const auto& job : jobs) job->begin(txn + 1, true);
    for (std::uint32_t b = memory.buckets(); b-- > 0;) {  // as backward does: from the end
      for (const PiecePlace& place : places) {
        for (const auto& job : jobs) {
          EXPECT_EQ(job->missing(b, 0),
                    &job->places()[static_cast<std::size_t>(&place - places.data())].piece);
          job->progress(lent, false);
        }
        EXPECT_FALSE(memory.marked(b, txn));
        memory.publish(place, b, txn);
      }
      for (const auto& job : jobs) job->progress(lent, random() % 2 == 0);
      EXPECT_TRUE(memory.marked(b, txn));
      EXPECT_TRUE(memory.has(node, b, txn))
          << "V " << memory.plan.virtual_workers << ", node " << node.level << "/" << node.index
          << ", bucket " << b << ", transaction " << txn;
    }
    for (const auto& job : jobs) EXPECT_TRUE(job->done());
  }
}

TEST(Job, EachNodeThatCoversAHostsBlock) {
  std::mt19937 random(11);
  for (const std::uint32_t v : {1U, 2U, 5U, 7U, 8U, 12U, 13U}) {
    for (int round = 0; round < 6; ++round) {
      for (std::uint32_t first = 0; first < v;) {
        const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % (v - first));
        const std::vector<PiecePlace> all = members_of(first, count, v, random);
        for (const coord::Node node : coord::cover(first, count, v))
          fold(Memory(plan_of(v)), node, below(node, v, all), random);
        first += count;
      }
    }
  }
}

// Two members of a node of four leaves.
struct Pair {
  Memory memory{plan_of(8)};
  const coord::Node node{2, 1};
  const std::vector<PiecePlace> places{{{{1, 2}, 0}, 0, 0}, {{{1, 3}, 1}, 1, 0}};
  Lent lent = nothing_lent(memory);
  Job job{memory.plan, memory.layout, memory.data()};
  void assign(const std::function<bool(std::uint32_t, std::uint32_t)>& is_own) {
    job.assign({node, memory.area}, places, is_own);
  }
};

TEST(Job, WhatAnotherHasMarkedStaysAsItIs) {
  Pair pair;
  pair.assign([](std::uint32_t, std::uint32_t) { return true; });
  pair.job.begin(4, true);
  pair.memory.word(pair.memory.layout.chunk_mark(pair.memory.area, 0, 1)).store(4);
  for (const PiecePlace& place : pair.places) pair.memory.publish(place, 0, 3);
  pair.job.progress(pair.lent, false);
  EXPECT_TRUE(pair.memory.marked(0, 3));
  const auto* value = reinterpret_cast<const float*>(pair.memory.data() +
                                                     pair.memory.layout.value(pair.memory.area, 0));
  EXPECT_TRUE(std::all_of(value + 16, value + 32, [](float x) { return x == 0; }));
  EXPECT_TRUE(std::any_of(value, value + 16, [](float x) { return x != 0; }));
}

// It was another host's, which died after it had sent it: the node has no reader, and is not made.
TEST(Job, ANodeOfASumThatIsThereIsLeftOut) {
  Pair pair;
  pair.assign([](std::uint32_t, std::uint32_t) { return true; });
  pair.job.begin(4, true);
  pair.memory.word(pair.memory.layout.chunk_mark(0, 1)).store(4);
  for (std::uint32_t b = 0; b < 4; ++b)
    for (const PiecePlace& place : pair.places) pair.memory.publish(place, b, 3);
  pair.job.progress(pair.lent, false);
  EXPECT_TRUE(pair.job.done());
  const auto mark = [&](std::uint32_t chunk) {
    return pair.memory.word(pair.memory.layout.chunk_mark(pair.memory.area, 0, chunk)).load();
  };
  EXPECT_EQ(mark(0), 4U);
  EXPECT_EQ(mark(1), 0U);
  const auto* value = reinterpret_cast<const float*>(pair.memory.data() +
                                                     pair.memory.layout.value(pair.memory.area, 0));
  EXPECT_TRUE(std::all_of(value + 16, value + 32, [](float x) { return x == 0; }));
}

// A heir begins anew, and finds what the dead had done.
TEST(Job, ADeathHandsOnWhatIsNotMarked) {
  Pair pair;
  pair.assign([](std::uint32_t, std::uint32_t chunk) { return chunk % 2 == 0; });
  pair.job.begin(4, true);
  for (std::uint32_t b = 0; b < 4; ++b)
    for (const PiecePlace& place : pair.places) pair.memory.publish(place, b, 3);
  pair.job.progress(pair.lent, false);
  EXPECT_TRUE(pair.job.done());
  EXPECT_FALSE(pair.memory.marked(0, 3));
  pair.assign([](std::uint32_t, std::uint32_t) { return true; });
  EXPECT_FALSE(pair.job.done());
  EXPECT_TRUE(pair.job.progress(pair.lent, false));
  EXPECT_FALSE(pair.job.progress(pair.lent, false));
  for (std::uint32_t b = 0; b < 4; ++b) EXPECT_TRUE(pair.memory.has(pair.node, b, 3)) << b;
}

TEST(Job, WithoutThisMemberThereIsNothingToDo) {
  Pair pair;
  pair.assign([](std::uint32_t, std::uint32_t) { return true; });
  pair.job.begin(4, false);
  EXPECT_TRUE(pair.job.done());
  EXPECT_FALSE(pair.job.progress(pair.lent, false));
}

// A lent chunk is nowhere else.
TEST(Job, LentChunksAreReadWhereTheyAre) {
  Pair pair;
  pair.assign([](std::uint32_t, std::uint32_t) { return true; });
  pair.job.begin(4, true);
  for (const PiecePlace& place : pair.places) pair.memory.publish(place, 0, 3);
  std::byte* const piece = pair.memory.data() + pair.memory.layout.piece(0, 0, 0);
  const std::vector<std::byte> source(piece + 64, piece + 128);
  std::memset(piece + 64, 0xff, 64);
  pair.lent.leaf = 4;
  pair.lent.sources[0][1] = source.data();
  pair.job.progress(pair.lent, false);
  EXPECT_TRUE(pair.memory.has(pair.node, 0, 3));
}

TEST(Job, TellsOfWhatIsNotFinite) {
  for (const bool finite : {true, false}) {
    Pair pair;
    pair.assign([](std::uint32_t, std::uint32_t) { return true; });
    pair.job.begin(4, true);
    for (const PiecePlace& place : pair.places) pair.memory.publish(place, 0, 3);
    auto* piece = reinterpret_cast<float*>(pair.memory.data() + pair.memory.layout.piece(1, 0, 0));
    if (!finite) piece[39] = -std::numeric_limits<float>::infinity();
    pair.job.progress(pair.lent, false);
    const std::uint64_t mark = pair.memory.layout.not_finite_mark(pair.memory.area, 0);
    EXPECT_EQ(pair.memory.word(mark).load(), finite ? 0U : 4U);
  }
}

// What other hosts supply comes chunk by chunk; chunks are summed in order.
TEST(Job, AChunkWaitsForWhatOtherHostsSupply) {
  ExchangePlan plan = plan_of(8);
  plan.hosts = 2;
  const Memory memory(plan);
  const Layout::Area remote = memory.layout.node(1, 6);
  const std::vector<PiecePlace> places{{{{1, 2}, 0}, 0, 0}, {{{1, 3}, 1}, 0, 0, remote}};
  const coord::Node node{2, 1};
  Job job(memory.plan, memory.layout, memory.data());
  job.assign({node, memory.area}, places, [](std::uint32_t, std::uint32_t) { return true; });
  job.begin(4, true);
  const Lent lent = nothing_lent(memory);
  memory.publish(places[0], 0, 3);
  EXPECT_TRUE(job.ready(0)) << "this host's part is there";
  EXPECT_EQ(job.missing(0, 0), &job.places()[1].piece);
  EXPECT_EQ(job.progress(lent, false), 0U);
  memory.put(memory.data() + memory.layout.value(remote, 0), {1, 3}, 0, 3);
  for (const std::uint32_t chunk : {1U, 0U, 2U}) {
    memory.word(memory.layout.chunk_mark(remote, 0, chunk)).store(4);
    EXPECT_EQ(job.progress(lent, false), chunk == 1 ? 0U : chunk == 0 ? 2U : 1U);
  }
  EXPECT_TRUE(memory.marked(0, 3));
  EXPECT_TRUE(memory.has(node, 0, 3));
}

TEST(Job, TheRootIsScaled) {
  const ExchangePlan plan = plan_of(3);
  const Memory memory(plan);
  Job job(memory.plan, memory.layout, memory.data());
  const std::vector<PiecePlace> places{{{{1, 0}, 0}, 0, 0}, {{{1, 1}, 1}, 1, 0}};
  job.assign({root_of(3), memory.area, 0.25F}, places,
             [](std::uint32_t, std::uint32_t) { return true; });
  job.begin(5, true);
  for (const PiecePlace& place : places) memory.publish(place, 0, 4);
  job.progress(nothing_lent(memory), false);
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t bits = conformance::scale(
        DType::kFloat32, node_value(Values::kAdversarial, DType::kFloat32, 4, 3, root_of(3), 0, i),
        0.25F);
    EXPECT_EQ(std::memcmp(memory.data() + memory.layout.value(memory.area, 0) + 4 * i, &bits, 4),
              0);
  }
}

}  // namespace
}  // namespace lockstep::comm::shm
