#include "ddp/fold.h"

namespace lockstep::ddp {

FoldStep fold_step(std::uint32_t leaf, coord::Node node, std::uint32_t virtual_workers) {
  FoldStep step{leaf, node, {}, false};
  coord::Node at{0, leaf};
  while (at.level < node.level) {
    const bool left = at.index % 2 == 0;
    const std::uint64_t sibling = std::uint64_t{at.index + 1U} << at.level;
    if (left && sibling < virtual_workers) return step;  // the right sibling comes later
    // A left child with nothing on its right is its parent.
    if (!left) step.into.push_back((at.index - 1) << at.level);
    at = {at.level + 1, at.index / 2};
  }
  step.completes = true;
  return step;
}

}  // namespace lockstep::ddp
