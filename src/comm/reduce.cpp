#include "comm/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "comm/kernels.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kBlockBytes = 4096;
// A stack of partial sums is never deeper than the tree.
constexpr int kMaxTemporaries = std::countr_zero(std::bit_ceil(coord::kMaxVirtualWorkers)) + 1;

struct Value {
  coord::Node node;
  int operand;
};

// Lowest temporary that no value on the stack uses.
int free_temporary(const std::vector<Value>& stack) {
  int candidate = -1;
  while (std::any_of(stack.begin(), stack.end(),
                     [&](const Value& v) { return v.operand == candidate; }))
    --candidate;
  return candidate;
}

}  // namespace

void add(DType dtype, std::byte* out, const std::byte* a, const std::byte* b, std::size_t count) {
  kernels_for(dtype).two(out, a, b, count, 1.0F);
}

coord::Node root_of(std::uint32_t virtual_workers) {
  return {static_cast<std::uint32_t>(std::countr_zero(std::bit_ceil(virtual_workers))), 0};
}

TreeSum::TreeSum(std::span<const coord::Node> nodes, coord::Node target,
                 std::uint32_t virtual_workers)
    : inputs_(nodes.size()) {
  std::vector<Value> stack;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    assert(nodes[i].level <= target.level);
    stack.push_back({nodes[i], static_cast<int>(i)});
    while (stack.back().node.level < target.level) {
      const coord::Node top = stack.back().node;
      const coord::Node parent{top.level + 1, top.index / 2};
      if (top.index % 2 == 1) {
        const Value right = stack.back();
        stack.pop_back();
        const Value left = stack.back();
        assert(left.node == (coord::Node{top.level, top.index - 1}));
        stack.pop_back();
        const int out = left.operand < 0    ? left.operand
                        : right.operand < 0 ? right.operand
                                            : free_temporary(stack);
        steps_.push_back({left.operand, right.operand, out});
        temporaries_ = std::max(temporaries_, -out);
        stack.push_back({parent, out});
      } else if ((std::uint64_t{top.index} + 1) << top.level >= virtual_workers) {
        stack.back().node = parent;  // nothing on the right: the parent is its left child
      } else {
        break;
      }
    }
  }
  assert(stack.size() == 1 && stack.back().node == target && temporaries_ <= kMaxTemporaries);
}

bool TreeSum::operator()(DType dtype, std::span<const std::byte* const> inputs, std::byte* out,
                         std::size_t count, float scale, bool past_caches) const {
  assert(inputs.size() == inputs_ && inputs_ > 0);
  const Kernels& kernels = kernels_for(dtype);
  const std::size_t size = size_of(dtype);
  const std::size_t block = kBlockBytes / size;
  alignas(64) std::array<std::array<std::byte, kBlockBytes>, kMaxTemporaries> temporaries;
  bool finite = true;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t n = std::min(block, count - first);
    const auto operand = [&](int which) -> const std::byte* {
      return which < 0 ? temporaries[static_cast<std::size_t>(-which - 1)].data()
                       : inputs[static_cast<std::size_t>(which)] + first * size;
    };
    std::byte* const target = out + first * size;
    std::byte* const result = past_caches ? temporaries[0].data() : target;
    if (steps_.empty()) {
      kernels.one(result, operand(0), n, scale);
    } else if (steps_.size() == 2 && (steps_[1].a < 0) != (steps_[1].b < 0)) {
      const int third = steps_[1].a < 0 ? steps_[1].b : steps_[1].a;  // a + b = b + a
      kernels.three(result, operand(steps_[0].a), operand(steps_[0].b), operand(third), n, scale);
    } else {
      for (std::size_t i = 0; i + 1 < steps_.size(); ++i)
        kernels.two(const_cast<std::byte*>(operand(steps_[i].out)), operand(steps_[i].a),
                    operand(steps_[i].b), n, 1.0F);
      kernels.two(result, operand(steps_.back().a), operand(steps_.back().b), n, scale);
    }
    finite = kernels.finite(result, n) && finite;  // while it is in the first cache
    if (past_caches) stream(target, result, n * size);
  }
  if (past_caches) stream_fence();
  return finite;
}

}  // namespace lockstep::comm
