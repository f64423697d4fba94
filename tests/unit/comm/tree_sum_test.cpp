#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "comm/reduce.h"
#include "conformance/oracle.h"

namespace lockstep::comm {
namespace {

using conformance::node_value;
using conformance::Values;

// Sums the nodes' values and compares with the target's.
void check(DType dtype, const std::vector<coord::Node>& nodes, coord::Node target,
           std::uint32_t virtual_workers, std::size_t count, float scale, bool past_caches) {
  const std::size_t size = size_of(dtype);
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const std::byte*> pointers;
  for (const coord::Node node : nodes) {
    inputs.emplace_back(count * size);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits =
          node_value(Values::kAdversarial, dtype, 0, virtual_workers, node, 0, i);
      std::memcpy(inputs.back().data() + i * size, &bits, size);
    }
  }
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<std::byte> memory(count * size + 128);
  auto* out = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) /
                                           64 * 64);
  const TreeSum tree(nodes, target, virtual_workers);
  EXPECT_EQ(tree.inputs(), nodes.size());
  tree(dtype, pointers, out, count, scale, past_caches);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t expected = conformance::scale(
        dtype, node_value(Values::kAdversarial, dtype, 0, virtual_workers, target, 0, i), scale);
    ASSERT_EQ(std::memcmp(out + i * size, &expected, size), 0)
        << "V " << virtual_workers << ", node " << target.level << "/" << target.index
        << ", element " << i;
  }
}

void check(DType dtype, const std::vector<coord::Node>& nodes, std::uint32_t virtual_workers,
           std::size_t count, float scale, bool past_caches) {
  check(dtype, nodes, conformance::root_of(virtual_workers), virtual_workers, count, scale,
        past_caches);
}

// What members of any blocks supply of a node's leaves. At the right edge blocks fold on into the
// padding, as far as the node.
std::vector<coord::Node> cut(coord::Node target, std::uint32_t virtual_workers,
                             std::mt19937& random) {
  std::vector<coord::Node> nodes;
  const std::uint32_t end = std::min((target.index + 1) << target.level, virtual_workers);
  for (std::uint32_t first = target.first_leaf(); first < end;) {
    const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % (end - first));
    for (const coord::Node node : coord::cover(first, count, virtual_workers))
      nodes.push_back(node.level > target.level ? target : node);
    first += count;
  }
  return nodes;
}

std::vector<coord::Node> leaves(std::uint32_t virtual_workers) {
  std::vector<coord::Node> nodes;
  for (std::uint32_t v = 0; v < virtual_workers; ++v) nodes.push_back({0, v});
  return nodes;
}

TEST(TreeSum, LeavesOfEveryV) {
  for (std::uint32_t v = 1; v <= 40; ++v)
    check(DType::kFloat32, leaves(v), v, 33, 1.0F / static_cast<float>(v), v % 2 == 0);
}

TEST(TreeSum, AnySplitIntoBlocks) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t v = 1 + static_cast<std::uint32_t>(random() % 33);
    const DType dtype = static_cast<DType>(round % 4);
    check(dtype, cut(conformance::root_of(v), v, random), v, 21, 0.3F, round % 2 == 0);
  }
}

// Not scaled: they are added up further.
TEST(TreeSum, AnyNodeBelowTheRoot) {
  std::mt19937 random(5);
  for (const std::uint32_t v : {1U, 2U, 3U, 5U, 7U, 8U, 11U, 13U, 31U, 33U})
    for (std::uint32_t level = 0; level <= conformance::root_of(v).level; ++level)
      for (coord::Node target{level, 0}; target.first_leaf() < v; ++target.index)
        for (int round = 0; round < 4; ++round)
          check(static_cast<DType>(round), cut(target, v, random), target, v, 5, 1.0F,
                random() % 2 == 0);
}

// A host's block, folded into its cover from its members' pieces; and the root from all of those.
TEST(TreeSum, TheRootFromNodesOfHosts) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const DType dtype = static_cast<DType>(round % 4);
    const std::uint32_t v = 1 + static_cast<std::uint32_t>(random() % 40);
    std::vector<coord::Node> nodes;
    for (std::uint32_t first = 0; first < v;) {
      const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % (v - first));
      for (const coord::Node target : coord::cover(first, count, v)) {
        check(dtype, cut(target, v, random), target, v, 3, 1.0F, false);
        nodes.push_back(target);
      }
      first += count;
    }
    check(dtype, nodes, v, 3, 1.0F / static_cast<float>(v), false);
  }
}

TEST(TreeSum, TheRootCoversAllLeaves) {
  for (std::uint32_t v = 1; v <= 70; ++v) EXPECT_EQ(root_of(v), conformance::root_of(v)) << v;
}

TEST(TreeSum, CountsAroundABlock) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16})
    for (const std::uint32_t v : {1U, 2U, 3U, 6U})
      for (const std::size_t count : {0U, 1U, 511U, 513U, 2047U, 2049U, 5000U})
        for (const bool past_caches : {false, true})
          check(dtype, leaves(v), v, count, 0.7F, past_caches);
}

TEST(TreeSum, TheMostVirtualWorkers) {
  check(DType::kFloat32, leaves(coord::kMaxVirtualWorkers), coord::kMaxVirtualWorkers, 3, 1.0F,
        false);
}

TEST(Add, InPlace) {
  std::vector<float> a{1, 2, 3}, b{10, 20, 30};
  add(DType::kFloat32, reinterpret_cast<std::byte*>(a.data()),
      reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()),
      3);
  EXPECT_EQ(a, (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace lockstep::comm
