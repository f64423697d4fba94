// The fixed tree by plain recursion, element by element: the reference that the fast code is
// compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/exchange.h"
#include "coord/tree.h"

namespace lockstep::comm::fake {

using Bytes = std::vector<std::byte>;
// The bytes that somebody supplies for a node, or null.
using Supplied = std::function<const Bytes*(coord::Node)>;

Bytes plain_sum(DType dtype, std::uint32_t virtual_workers, const Supplied& supplied);
void plain_scale(DType dtype, Bytes& data, float scale);

}  // namespace lockstep::comm::fake
