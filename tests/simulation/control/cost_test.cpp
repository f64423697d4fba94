// What events cost a run on few and on many hosts, by counting: words, their bytes, how often the
// run's state is said, and how much its leader copies. None may grow faster than N log N; the state
// itself has a line for each host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cluster.h"

namespace lockstep::simulation {
namespace {

// Of few hosts a leader looks at each word; of more all that have come in some milliseconds.
constexpr std::size_t kFew = 100, kMany = 400;

double n_log_n(std::size_t n) { return static_cast<double>(n) * std::log2(n); }

// Heartbeats of the time that it takes are not the event's.
void expect_cheap(const char* event, const ControlCosts& few, const ControlCosts& many) {
  const double growth = n_log_n(kMany) / n_log_n(kFew);
  const auto grown = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to) / static_cast<double>(std::max<std::uint64_t>(from, 1));
  };
  EXPECT_LE(grown(few.words, many.words), growth) << event;
  EXPECT_LE(grown(few.bytes, many.bytes), growth) << event;
  EXPECT_LE(grown(few.states, many.states), growth) << event;
  EXPECT_LE(grown(few.leader_allocated, many.leader_allocated), growth)
      << event << ": what the leader copies and writes";
  EXPECT_LE(grown(few.state_bytes / std::max<std::uint64_t>(few.states, 1),
                  many.state_bytes / std::max<std::uint64_t>(many.states, 1)),
            growth)
      << event << ": the state";
}

TEST(ControlCost, NoEventGrowsFasterThanNLogN) {
  ControlCluster few(kFew), many(kMany);
  const auto both = [&](const char* event, const std::function<ControlCosts(ControlCluster&)>& is) {
    const ControlCosts small = is(few), large = is(many);
    expect_cheap(event, small, large);
  };
  both("form", [](ControlCluster& it) { return it.form(); });
  both("rest", [](ControlCluster& it) { return it.rest(10 * kSecond); });
  both("a host dies", [](ControlCluster& it) { return it.lose(1); });
  both("the leader dies", [](ControlCluster& it) { return it.lose_leader(); });
  both("four hosts die", [](ControlCluster& it) { return it.lose(4); });
}

// As many words as if one had died.
TEST(ControlCost, DeathsAtOnceAreOneEvent) {
  ControlCluster one(50), several(50);
  one.form(), several.form();
  const ControlCosts single = one.lose(1), all = several.lose(20);
  EXPECT_LE(all.words, single.words * 11 / 10);
}

}  // namespace
}  // namespace lockstep::simulation
