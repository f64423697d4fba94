#include "comm/shm/layout.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "comm/shm/pages.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::uint64_t kRoom = std::uint64_t{1} << 40;

ExchangePlan plan_of(std::uint32_t virtual_workers, std::uint64_t count) {
  ExchangePlan plan;
  plan.virtual_workers = virtual_workers;
  plan.buckets = {{DType::kFloat32, count}, {DType::kBFloat16, 5}, {DType::kFloat64, 0}};
  plan.buffer_bytes = 10;
  plan.eval_items = 3;
  plan.state_bytes = 5000;
  return plan;
}

TEST(Layout, NothingOverlaps) {
  ExchangePlan plan = plan_of(3, 100'000);
  plan.row_bytes = 70;
  plan.hosts = 3;
  const Layout layout = Layout::make(plan, kRoom).value();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts{
      {0, shm_group_bytes()}};  // offset, bytes
  const auto part = [&](std::uint64_t offset, std::uint64_t bytes) {
    parts.emplace_back(offset, bytes);
  };
  const auto add_area = [&](const Layout::Area& area, std::uint32_t b) {
    for (std::uint32_t c = 0; c < layout.chunks(b); ++c) part(layout.chunk_mark(area, b, c), 8);
    part(layout.not_finite_mark(area, b), 8);
    part(layout.value(area, b), layout.bucket_bytes(b));
    EXPECT_EQ(layout.value(area, b) % 64, 0U);
  };
  for (std::uint32_t b = 0; b < 3; ++b) {
    for (std::uint32_t s = 0; s < layout.slots(); ++s)
      for (std::uint32_t v = 0; v < 3; ++v) {
        part(layout.piece_mark(s, v, b), 8);
        part(layout.piece(s, v, b), layout.bucket_bytes(b));
        EXPECT_EQ(layout.piece(s, v, b) % 64, 0U);
      }
    for (std::uint32_t host = 0; host < 3; ++host)
      for (std::uint32_t v = 0; v < 3; ++v) add_area(layout.node(host, v), b);
    add_area(layout.sums(), b);
  }
  for (std::uint64_t t = 0; t < kGenerations; ++t) {
    part(layout.buffers_mark(Txn(t)), 8);
    for (std::uint32_t b = 0; b < 3; ++b) part(layout.left_out_mark(Txn(t), b), 8);
    part(layout.buffers(Txn(t)), 10);
    for (std::uint32_t v = 0; v < 3; ++v) {
      part(layout.row_mark(Txn(t), v), 8);
      part(layout.row(Txn(t), v), 70);
    }
  }
  part(layout.heal_mark(), 8);
  part(layout.heal(), 5000);
  for (std::uint64_t t = 0; t < kGenerations; ++t)
    for (std::uint32_t i = 0; i < 3; ++i) part(layout.eval_cell(Txn(t), i), sizeof(EvalCell));
  std::erase_if(parts, [](const auto& p) { return p.second == 0; });
  std::sort(parts.begin(), parts.end());
  for (std::size_t i = 1; i < parts.size(); ++i)
    EXPECT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first) << "part " << i;
  EXPECT_LE(parts.back().first + parts.back().second, layout.end());
}

// A run without rows has the layout that it had before there were any.
TEST(Layout, NoRowsTakeNoRoom) {
  const Layout without = Layout::make(plan_of(3, 1000), kRoom).value();
  EXPECT_EQ(without.row(Txn(0), 0), without.heal());
  EXPECT_LE(without.eval_cell(Txn(0), 0) - without.heal_mark(), 4096U);
}

TEST(Layout, OneHostHasNoRoomForOthers) {
  ExchangePlan plan = plan_of(3, 1000);
  const Layout one = Layout::make(plan, kRoom).value();
  EXPECT_EQ(one.piece(0, 0, 0), one.sum(0) + one.piece_bytes());
  plan.hosts = 2;
  const Layout two = Layout::make(plan, kRoom).value();
  EXPECT_GE(two.piece(0, 0, 0), one.piece(0, 0, 0) + 6 * one.piece_bytes());
  EXPECT_EQ(two.piece(0, 0, 0) % 4096, 0U);
}

TEST(Layout, MoreHostsThanThereIsRoomForAreTold) {
  ExchangePlan plan = plan_of(8, 11'700'000);  // as ResNet-18
  for (plan.hosts = 2'900; !Layout::make(plan, kRoom).ok(); plan.hosts -= 10) {
  }
  EXPECT_GE(plan.hosts, 2'000U);
  EXPECT_GE(Layout::make(plan, kRoom)->slots(), 2U);
  for (const std::uint32_t hosts : {0U, 4'000U, ~0U}) {
    plan.hosts = hosts;
    const auto layout = Layout::make(plan, kRoom);
    ASSERT_FALSE(layout.ok()) << hosts;
    EXPECT_NE(layout.error().message.find("what " + std::to_string(hosts) + " hosts tell"),
              std::string::npos)
        << layout.error().message;
  }
}

TEST(Layout, SlotsForMembersAndTheirReplacements) {
  EXPECT_EQ(Layout::make(plan_of(1, 1), kRoom)->slots(), 8U);
  EXPECT_EQ(Layout::make(plan_of(8, 1), kRoom)->slots(), 16U);
  EXPECT_EQ(Layout::make(plan_of(1024, 1), kRoom)->slots(), coord::kMaxSlots);
}

TEST(Layout, FewerSlotsWhereRoomIsShort) {
  // 48 MB: 256 slots would be 1.5 TiB.
  const Layout layout = Layout::make(plan_of(128, 12'000'000), kRoom).value();
  EXPECT_GE(layout.slots(), 128U);
  EXPECT_LT(layout.slots(), coord::kMaxSlots);
  EXPECT_LE(layout.end(), kRoom);
}

TEST(Layout, WhatCannotFitIsToldWithNumbers) {
  for (const ExchangePlan& plan :
       {plan_of(1024, 1'000'000'000), plan_of(1, std::uint64_t{1} << 62)}) {
    const auto layout = Layout::make(plan, kRoom);
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.error().kind, ErrorKind::kUsage);
    EXPECT_NE(layout.error().message.find(std::to_string(kRoom)), std::string::npos)
        << layout.error().message;
  }
  ExchangePlan plan = plan_of(1, 1);
  plan.state_bytes = kRoom * 2;
  EXPECT_FALSE(Layout::make(plan, kRoom).ok());
  plan = plan_of(1024, 1);
  plan.row_bytes = kRoom / 1024;
  ASSERT_FALSE(Layout::make(plan, kRoom).ok());
  EXPECT_NE(Layout::make(plan, kRoom).error().message.find("carry"), std::string::npos);
  plan = plan_of(0, 1);
  EXPECT_FALSE(Layout::make(plan, kRoom).ok());
  plan = plan_of(1, 1);
  plan.chunk_bytes = 100;
  EXPECT_FALSE(Layout::make(plan, kRoom).ok());
}

TEST(Prefault, MakesPagesPresentAndKeepsTheirContent) {
  constexpr std::size_t kBytes = 64 * 4096;
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  memory[5000] = std::byte{7};
  prefault(memory + 4096, 3 * 4096 + 1, Access::kWrite);
  unsigned char present[64];
  ASSERT_EQ(mincore(memory, kBytes, present), 0);
  for (int page = 1; page <= 4; ++page) EXPECT_EQ(present[page] & 1, 1) << page;
  EXPECT_EQ(present[40] & 1, 0);
  EXPECT_EQ(memory[5000], std::byte{7});
  prefault(memory, 0, Access::kRead);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace lockstep::comm::shm
