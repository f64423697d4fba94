// What a finished pickle must be: a tree without loops, not too deep, not too large written out.
#pragma once

#include <vector>

#include "pickle/reader.h"

namespace lockstep::pickle {

// The identities (Sequence* or Dict*) of all that `root` holds, sorted. Errors: kBadData.
Result<std::vector<const void*>> check(const Value& root, const Limits& limits);

}  // namespace lockstep::pickle
