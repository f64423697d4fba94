// A loop hears a doorbell, and misses no ring.
#include "carrier/bell_watch.h"

#include <gtest/gtest.h>

namespace lockstep::carrier {
namespace {

using namespace std::chrono_literals;

TEST(BellWatch, EveryRingIsHeardOnceOrWithOthers) {
  Loop loop = *Loop::open();
  Doorbell bell{};
  std::atomic<std::uint32_t> value{0};
  std::uint32_t seen = 0, calls = 0;
  auto watch = BellWatch::start(loop, bell, 100us, [&] {
    seen = value.load(std::memory_order_acquire);
    ++calls;
  });
  ASSERT_TRUE(watch.ok());
  std::thread ringer([&] {
    for (std::uint32_t i = 1; i <= 3000; ++i) {
      value.store(i, std::memory_order_release);
      ring(bell);
      if (i % 100 == 0) pause(1ms);
    }
  });
  const Deadline end = Deadline::in(20s);
  while (seen < 3000 && !end.passed()) loop.run_once(Deadline::in(100ms));
  ringer.join();
  EXPECT_EQ(seen, 3000U);
  EXPECT_LE(calls, 3000U);
}

TEST(BellWatch, EndsAtOnceAndMayBeStartedAgain) {
  Loop loop = *Loop::open();
  Doorbell bell{};
  for (int i = 0; i < 20; ++i) {
    bool rung = false;
    auto watch = BellWatch::start(loop, bell, 10us, [&] { rung = true; });
    ASSERT_TRUE(watch.ok());
    ring(bell);
    const Deadline end = Deadline::in(20s);
    while (!rung && !end.passed()) loop.run_once(Deadline::in(100ms));
    EXPECT_TRUE(rung);
  }
}

}  // namespace
}  // namespace lockstep::carrier
