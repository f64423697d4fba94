// What a step's wait that timed out was waiting for, and whose it is.
//
// Threads: values. Errors: none.
#pragma once

#include <optional>
#include <string>

#include "comm/shm/layout.h"
#include "comm/shm/sums.h"
#include "coord/ownership.h"
#include "coord/table.h"

namespace lockstep::comm::shm {

// For people. `lack`: of its sums; none: all of them are there.
std::string missing_in_words(const coord::Table& table, const coord::Ownership& ownership,
                             const Layout& layout, const std::optional<Sums::Missing>& lack);

}  // namespace lockstep::comm::shm
