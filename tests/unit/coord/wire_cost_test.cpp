// Which numbers of virtual workers send the fewest bytes between hosts.
#include "coord/wire_cost.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace lockstep::coord {
namespace {

using Workers = std::vector<std::uint32_t>;

TEST(WireCost, AHostSendsOneSumWhereItsBlockIsAPowerOfTwo) {
  for (std::uint32_t hosts = 1; hosts <= 9; ++hosts) {
    const Workers workers(hosts, 1);
    for (std::uint32_t each = 1; each <= 16; ++each)
      EXPECT_EQ(most_sums_of_a_host(hosts * each, workers) == 1,
                std::has_single_bit(each) || hosts == 1)
          << hosts << " hosts, " << each << " virtual workers each";
  }
}

TEST(WireCost, CountsTheSumsOfTheHostThatHasMost) {
  EXPECT_EQ(most_sums_of_a_host(9, Workers{3, 3, 3}), 2U);
  EXPECT_EQ(most_sums_of_a_host(6, Workers{2, 1, 2}), 2U);  // 3 + 1 + 2
  EXPECT_EQ(most_sums_of_a_host(8, Workers{2, 1, 1}), 1U);  // 4 + 2 + 2
  EXPECT_EQ(most_sums_of_a_host(14, Workers{1, 1}), 3U);    // 4 + 2 + 1
  EXPECT_EQ(most_sums_of_a_host(2, Workers{1, 1, 1}), 1U);  // one has none
}

TEST(WireCost, NamesANumberThatFits) {
  EXPECT_EQ(with_one_sum_a_host(6, Workers{1, 1}), 7U);  // 4 + 3: at the edge less is whole, too
  EXPECT_EQ(with_one_sum_a_host(9, Workers{1, 1, 1}), 11U);        // 4 + 4 + 3
  EXPECT_EQ(with_one_sum_a_host(6, Workers{3, 3}), std::nullopt);  // 8: one worker would have 2
  EXPECT_EQ(with_one_sum_a_host(14, Workers{1, 1}), 15U);
  EXPECT_EQ(with_one_sum_a_host(4, Workers{1, 2, 1}), std::nullopt);
  EXPECT_EQ(with_one_sum_a_host(1020, Workers(5, 1)), std::nullopt);  // of 1,024 at most
}

}  // namespace
}  // namespace lockstep::coord
