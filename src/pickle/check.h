// What a finished pickle becomes: a tree without loops and pieces, not too deep, not too large
// written out, whose dicts have keys that Python can hash.
#pragma once

#include <span>
#include <vector>

#include "pickle/reader.h"

namespace lockstep::pickle {

// Puts an Opaque in the place of what lies within itself or is no value of its own. The same limits
// hold for each of `dropped`: what was in leaves. The identities (of Sequence, Set, Dict) of all
// that they hold, sorted. Errors: kBadData.
Result<std::vector<const void*>> check(Value& root, std::span<Value> dropped, const Limits& limits);

// Of a list, tuple, set or dict; else nullptr.
const void* identity(const Value& value);

}  // namespace lockstep::pickle
