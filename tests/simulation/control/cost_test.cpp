// What events cost a run on few and on many hosts, by counting: words, their bytes with all that
// they carry, how often the run's state is said, and how much its leader copies. None may grow
// faster than N log N. But as the run forms each host learns of each other: N lines, for N hosts.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "cluster.h"

namespace lockstep::simulation {
namespace {

// Of few hosts a leader looks at each word; of more all that have come in some milliseconds.
constexpr std::size_t kFew = 100, kMany = 400;

double n_log_n(std::size_t n) { return static_cast<double>(n) * std::log2(n); }

constexpr std::uint64_t kMostOfALine = 200;

// Heartbeats of the time that it takes are not the event's.
void expect_cheap(const char* event, const ControlCosts& few, const ControlCosts& many) {
  const double growth = n_log_n(kMany) / n_log_n(kFew);
  const auto expect = [&](const char* what, std::uint64_t from, std::uint64_t to) {
    EXPECT_LE(static_cast<double>(to), growth * static_cast<double>(from)) << event << ": " << what;
  };
  expect("words", few.words, many.words);
  expect("bytes", few.bytes, many.bytes);
  expect("how often the state is said", few.states, many.states);
  expect("bytes of the state", few.state_bytes, many.state_bytes);
  expect("what the leader copies and writes", few.leader_allocated, many.leader_allocated);
}

// But for the lines.
void expect_to_form_cheaply(ControlCosts few, ControlCosts many) {
  for (auto [hosts, costs] : {std::pair(kFew, &few), std::pair(kMany, &many)}) {
    EXPECT_LE(costs->state_bytes, hosts * hosts * kMostOfALine) << hosts << " hosts";
    costs->bytes -= std::exchange(costs->state_bytes, 0);
  }
  expect_cheap("form", few, many);
}

TEST(ControlCost, NoEventGrowsFasterThanNLogN) {
  ControlCluster few(kFew), many(kMany);
  const ControlCosts small = few.form(), large = many.form();
  expect_to_form_cheaply(small, large);
  const auto both = [&](const char* event, const std::function<ControlCosts(ControlCluster&)>& is) {
    const ControlCosts of_few = is(few), of_many = is(many);
    expect_cheap(event, of_few, of_many);
  };
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
