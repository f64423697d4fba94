#include "coord/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "unit/coord/leaves.h"

namespace lockstep::coord {
namespace {

TEST(Cover, IsExactInOrderAndAsShortAsCanBe) {
  for (std::uint32_t v = 1; v <= 33; ++v)
    for (std::uint32_t first = 0; first < v; ++first)
      for (std::uint32_t count = 0; first + count <= v; ++count) {
        std::uint32_t at = first;
        const auto nodes = cover(first, count, v);
        for (const Node node : nodes) {
          const auto [begin, end] = range(node, v);
          ASSERT_EQ(begin, at);
          ASSERT_GT(end, at);
          at = end;
        }
        ASSERT_EQ(at, first + count);
        // Two neighbours that are siblings would be one node.
        for (std::size_t i = 1; i < nodes.size(); ++i)
          ASSERT_FALSE(nodes[i - 1].level == nodes[i].level &&
                       nodes[i - 1].index + 1 == nodes[i].index && nodes[i].index % 2 == 1);
        ASSERT_LE(nodes.size(), 2U * static_cast<unsigned>(std::bit_width(v)));
      }
}

TEST(Cover, KnownCases) {
  EXPECT_EQ(cover(0, 8, 8), (std::vector<Node>{{3, 0}}));
  EXPECT_EQ(cover(0, 5, 5), (std::vector<Node>{{3, 0}}));
  EXPECT_EQ(cover(3, 2, 5), (std::vector<Node>{{0, 3}, {2, 1}}));
  EXPECT_EQ(cover(1, 5, 8), (std::vector<Node>{{0, 1}, {1, 1}, {1, 2}}));
  EXPECT_TRUE(cover(3, 0, 8).empty());
}

}  // namespace
}  // namespace lockstep::coord
