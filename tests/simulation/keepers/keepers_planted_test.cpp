// Each mistake put in on purpose, of agents that take the lead over or of what they build on, is
// found.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "run.h"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kMost = 4000;  // schedules

#ifndef __SANITIZE_ADDRESS__
TEST(KeepersPlanted, EachIsFound) {
  const std::vector<std::pair<std::string, Blunder>> mistakes{
      {"budgets begun anew", Blunder::kBudgets},
      {"orders forgotten", Blunder::kOrders},
      {"ranks in another order", Blunder::kRanks},
      {"a report counted twice", Blunder::kHeard},
      {"done before a quorum has it", Blunder::kOwnWord},
      {"an old leader's order obeyed", Blunder::kOldLeader},
      {"incidents numbered anew", Blunder::kIncidents},
      {"hosts that come without a round", Blunder::kNoRound}};
  for (const auto& [name, blunder] : mistakes) {
    std::string found;
    std::uint64_t seed = 0;
    while (seed < kMost && found.empty()) found = play_keepers(++seed, blunder).violation;
    EXPECT_NE(found, "") << name;
    std::cout << name << ": seed " << seed << ": " << found.substr(0, found.find(';')) << "\n";
  }
}
#endif

}  // namespace
}  // namespace lockstep::simulation
