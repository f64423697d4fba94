// What may be behind a difference between two computations of a share, and what to write in its
// place: for people, a line each, the likeliest first, and only what can be.
//
// Threads: functions.
#pragma once

#include <string>

#include "transaction/share_comparison.h"

namespace lockstep::transaction {

// Who computed the share a second time.
enum class Again { kOtherWorker, kSameWorker, kNewcomer, kOtherHost };

struct Circumstances {
  Again by = Again::kOtherWorker;
  bool first_step = false;  // nothing has been kept before it
  bool hooks = false;       // the program has some (on_update())
};

// Behind Difference::text; begins with its own punctuation.
std::string causes_of(const Difference& differs, const Circumstances& in);
// The same of states that differ between workers.
std::string causes_of_states(bool hooks);

// Of modes that differ, behind what differs.
inline constexpr const char* kSetModesAlike =
    ": call train() and eval() in every worker alike, between next() and run() of each step; a "
    "worker that evaluates goes back to train() before the next step";

}  // namespace lockstep::transaction
