// What two computations of one share are compared by, and how a difference is said.
//
// Threads: functions.
#pragma once

#include <cstdint>
#include <string>

#include "coord/board.h"
#include "lockstep/sums.h"

namespace lockstep::transaction {

// The mean over so many samples.
struct ShareLoss {
  double mean = 0;
  std::uint64_t count = 0;  // 0: it took no part
};
ShareLoss loss_of(const coord::ShareRecord& record);
// In all bits; any NaN is any other.
bool same_loss(const ShareLoss& one, const ShareLoss& other);
std::string loss_text(const ShareLoss& loss);
// The first name that one has and the other has otherwise, or not; empty: none.
std::string first_difference(const Sums& first, const Sums& again);
std::string sum_text(const Sums& sums, const std::string& name);

}  // namespace lockstep::transaction
