// Whether what another agent says can be true. What cannot comes from a broken agent, or from
// somebody with its key; the room nodes counts with these numbers, and believes them.
//
// Threads: any. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "nodes/words.h"
#include "star/messages.h"

namespace lockstep::star {

// Limits of what one node may say.
inline constexpr std::uint32_t kMostWorkers = 65'536, kMostWorkersOfHost = 1'024;
inline constexpr std::size_t kMostTextBytes = 4'096, kMostWhyBytes = 16'384;

// What cannot be true; "": all of it can. `now`: by the clock of our own stamps, which are not
// beyond it. `leader`: who has got it.
std::string implausible(const nodes::NodeWord& word, nodes::Incarnation leader, std::uint64_t now);
std::string implausible(const nodes::LeaderWord& word, std::uint64_t now);
// Of a run of so many hosts.
std::string implausible(const message::Formed& formed, std::size_t hosts);

// Why something failed may be of any length, and is told to all: the first kMostWhyBytes.
void shorten(nodes::NodeWord& word);

}  // namespace lockstep::star
