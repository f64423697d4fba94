// How long a newcomer's copy of the state is waited for.
#include "transaction/join_patience.h"

#include <gtest/gtest.h>

namespace lockstep::transaction {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;

// The longest wait before it begins anew, and how long all of them are together.
struct Waits {
  std::uint64_t longest = 0, all = 0;
};
Waits waits(std::uint64_t crossing) {
  JoinPatience patience;
  Waits found;
  const std::uint64_t first = patience.now(crossing);
  do {
    const std::uint64_t now = patience.now(crossing);
    EXPECT_GT(now, found.longest);
    found.longest = now;
    found.all += now;
  } while (!patience.was_too_short(crossing));
  EXPECT_EQ(patience.now(crossing), first);
  return found;
}

TEST(JoinPatience, OfOneOnThisHostIsShort) {
  EXPECT_EQ(JoinPatience().now(0), 15 * kMs);
  EXPECT_EQ(waits(0).longest, 1920 * kMs);
}

TEST(JoinPatience, GrowsWithWhatANetworkHasToCarry) {
  EXPECT_EQ(JoinPatience().now(1'000'000'000), 10 * kSecond + 15 * kMs);
  for (const std::uint64_t bytes : {1'000ULL, 10'000'000ULL, 500'000'000ULL, 20'000'000'000ULL}) {
    const Waits found = waits(bytes);
    EXPECT_GE(found.longest, bytes * kSecond / 6'250'000) << "a network of 6.25 MB/s is too slow";
    EXPECT_GE(found.longest, 1920 * kMs);
    EXPECT_LT(found.all, 3 * found.longest);
  }
}

TEST(JoinPatience, BeginsAnewWithOneThatIsThere) {
  JoinPatience patience;
  for (int i = 0; i < 3; ++i) patience.was_too_short(0);
  EXPECT_EQ(patience.now(0), 120 * kMs);
  patience.was_enough();
  EXPECT_EQ(patience.now(0), 15 * kMs);
}

}  // namespace
}  // namespace lockstep::transaction
