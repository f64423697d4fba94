// One byte string as what it has in common with another, and the rest. For states that change a
// little: fields that are written over in place, and lists of which something is taken out, cost
// some bytes each.
//
//   varint bytes of the result | again and again, until it has them:
//   varint bytes that follow here, these | varint bytes to copy | zigzag varint: from where in
//   `from`, as distance from where the copy before has ended, and as much further as followed here
//
// varint: 7 bits a byte, the lowest first; the highest bit: another follows.
//
// Whether the result is the right one nobody can see from it: compare a digest.
//
// Ownership: values. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep {

// `to`, for whoever has `from`; both below 4 GiB. Time: linear.
std::string delta_of(std::string_view from, std::string_view to);

// The result has `most` bytes at most.
Result<std::string> apply_delta(std::string_view from, std::string_view delta, std::size_t most);

}  // namespace lockstep
