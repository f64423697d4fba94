#include "base/crowd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace lockstep {
namespace {

TEST(Crowd, TheOldestGoesOfTheAddressWithMost) {
  Crowd crowd;
  EXPECT_FALSE(crowd.first_to_go());
  crowd.add(1, "a");
  crowd.add(2, "b");
  EXPECT_EQ(crowd.first_to_go(), 1u);  // of many with one each, the oldest
  crowd.add(3, "b");
  EXPECT_EQ(crowd.first_to_go(), 2u);
  EXPECT_EQ(crowd.of("b"), 2u);
  crowd.remove(2);
  crowd.remove(2);
  EXPECT_EQ(crowd.first_to_go(), 1u);
  crowd.remove(1);
  crowd.remove(3);
  EXPECT_FALSE(crowd.first_to_go());
  EXPECT_EQ(crowd.size() + crowd.of("b"), 0u);
}

// Beside the same rule in a few slow lines.
TEST(Crowd, GoesByTheRuleWhateverComesAndGoes) {
  std::mt19937 dice(7);
  Crowd crowd;
  std::map<Crowd::Id, std::string> all;
  for (Crowd::Id id = 1; id < 2'000; ++id) {
    const std::string address(1, static_cast<char>('a' + dice() % 7));
    crowd.add(id, address);
    all.emplace(id, address);
    for (int i = 0; i < 2 && dice() % 3 != 0; ++i) {
      const auto goes = std::next(all.begin(), static_cast<std::ptrdiff_t>(dice() % all.size()));
      crowd.remove(goes->first);
      all.erase(goes);
      if (all.empty()) break;
    }
    std::map<std::string, std::size_t> counts;
    std::size_t most = 0;
    for (const auto& [each, from] : all) most = std::max(most, ++counts[from]);
    const auto first =
        std::ranges::find_if(all, [&](const auto& entry) { return counts[entry.second] == most; });
    ASSERT_EQ(crowd.first_to_go(), first == all.end() ? std::nullopt : std::optional(first->first));
    ASSERT_EQ(crowd.size(), all.size());
  }
}

}  // namespace
}  // namespace lockstep
