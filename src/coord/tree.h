// The fixed binary tree over V leaves, along which all sums are made (docs/design/arithmetic.md).
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::coord {

// A node of the fixed binary tree over V leaves: covers those of the leaves
// [index << level, (index + 1) << level) that are below V.
// Value of a node: its left child's plus its right child's, element by element; with nothing on the
// right (V is padded with nothing) it is the left child's.
struct Node {
  std::uint32_t level = 0;
  std::uint32_t index = 0;
  std::uint32_t first_leaf() const { return index << level; }
  friend bool operator==(const Node&, const Node&) = default;
};

constexpr bool covers(const Node& node, std::uint32_t leaf) {
  return leaf >> node.level == node.index;
}

// The fewest nodes that together cover exactly the leaves [first, first + count), left to right.
// `virtual_workers` matters at the right edge: a node that reaches over V counts as covering up to
// V only.
std::vector<Node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t virtual_workers);

}  // namespace lockstep::coord
