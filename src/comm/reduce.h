// Sums along the fixed tree (docs/design/arithmetic.md): every node is left + right, element by
// element, whoever computes it. fp32, fp64: in the dtype. bf16, fp16: each node in fp32, rounded to
// nearest even; NaN stays NaN. No contraction, no reordering: the same bits on every CPU. Threads:
// pure functions. Errors: none; preconditions are checked by assert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "coord/tree.h"

namespace lockstep::comm {

// out = a + b; `count` elements each, aligned to the element. out may be a or b; otherwise they do
// not overlap.
void add(DType dtype, std::byte* out, const std::byte* a, const std::byte* b, std::size_t count);

// Covers all leaves.
coord::Node root_of(std::uint32_t virtual_workers);

// How a node follows from given nodes below it: made once per ownership, used for every chunk.
class TreeSum {
 public:
  // Nothing to sum.
  TreeSum() = default;
  // `nodes`: left to right, together exactly the leaves of `target`, which is the root or a node
  // below it that has any.
  TreeSum(std::span<const coord::Node> nodes, coord::Node target, std::uint32_t virtual_workers);

  std::size_t inputs() const { return inputs_; }

  // out = target × scale; scale (fp32, converted to double for fp64) of exactly 1 leaves the sum
  // untouched. inputs[i]: nodes[i]'s `count` elements. `past_caches`: write out with non-temporal
  // stores (out 64-byte aligned), already fenced. Memory is read once, in blocks that stay in the
  // first cache.
  // True: every element of out is finite.
  bool operator()(DType dtype, std::span<const std::byte* const> inputs, std::byte* out,
                  std::size_t count, float scale, bool past_caches) const;

 private:
  // Operands: 0 and up are inputs, -1 and down temporaries.
  struct Step {
    int a, b, out;
  };
  std::size_t inputs_ = 0;
  int temporaries_ = 0;
  std::vector<Step> steps_;  // the last one's result is the target
};

}  // namespace lockstep::comm
