// Python's other sequences of whole numbers, as their pickles hold them: range, array.array
// (Modules/arraymodule.c, array_reduce_ex), collections.deque. They are read as lists of ints.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "pickle/reader.h"

namespace lockstep::data {

// For pickle::table_of().
std::span<const pickle::Global> sequence_globals();

}  // namespace lockstep::data
