#include "ddp/fold.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep::ddp {
namespace {

// The node's value as a bracketed text, by the definition of the tree.
std::string by_definition(std::uint32_t level, std::uint32_t index, std::uint32_t v) {
  const std::uint32_t first = index << level;
  if (level == 0) return std::to_string(first);
  const std::string left = by_definition(level - 1, 2 * index, v);
  if (first + (1U << (level - 1)) >= v) return left;
  return "(" + left + "+" + by_definition(level - 1, 2 * index + 1, v) + ")";
}

// The same by the steps: copy to a region, or add to regions.
std::string by_steps(coord::Node node, std::uint32_t v) {
  std::map<std::uint32_t, std::string> region;
  bool completed = false;
  const std::uint32_t end = std::min(v, (node.index + 1) << node.level);
  for (std::uint32_t leaf = node.first_leaf(); leaf < end; ++leaf) {
    EXPECT_FALSE(completed);
    const FoldStep step = fold_step(leaf, node, v);
    std::string value = std::to_string(leaf);
    if (step.into.empty()) region[leaf] = value;
    for (const std::uint32_t into : step.into)
      value = region[into] = "(" + region[into] + "+" + value + ")";
    completed = step.completes;
  }
  EXPECT_TRUE(completed);
  return region[node.first_leaf()];
}

TEST(Fold, GivesEachNodeOfEveryBlockItsValueInTreeOrder) {
  for (std::uint32_t v = 1; v <= 17; ++v)
    for (std::uint32_t first = 0; first < v; ++first)
      for (std::uint32_t count = 1; first + count <= v; ++count)
        for (const coord::Node node : coord::cover(first, count, v))
          EXPECT_EQ(by_steps(node, v), by_definition(node.level, node.index, v))
              << "V " << v << ", block " << first << " + " << count;
}

}  // namespace
}  // namespace lockstep::ddp
