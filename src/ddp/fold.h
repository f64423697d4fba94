// How one worker folds the leaves of its block into the nodes it publishes, as a binary counter: a
// leaf's gradient is either copied to its own region, or added to the region of its finished left
// sibling, and so on upwards (docs/design/arithmetic.md, "Tree"; the scheme is that of pairwise
// summation, Higham, SISC 1993). Regions are keyed by a node's first leaf, so adding up needs no
// more memory than the leaves themselves.
//
// Pure; threads: values.
#pragma once

#include <cstdint>
#include <vector>

#include "coord/tree.h"

namespace lockstep::ddp {

struct FoldStep {
  std::uint32_t leaf = 0;
  coord::Node node;  // the node that this leaf's worker publishes
  // Regions to add to, one after the other; empty: copy to region `leaf`.
  std::vector<std::uint32_t> into;
  bool completes = false;  // the last leaf of `node`
};

// For the leaf's place in its worker's published node. V = virtual_workers.
FoldStep fold_step(std::uint32_t leaf, coord::Node node, std::uint32_t virtual_workers);

}  // namespace lockstep::ddp
