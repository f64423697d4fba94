// What events cost the leader as N grows, by counting: words, and visits to ranks. No event
// may cost N * N; each is compared at 64 and at 1,024 nodes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cluster.h"

namespace lockstep::simulation {
namespace {

constexpr int kFew = 64, kMany = 1024;

struct Event {
  const char* name;
  std::function<Costs(Cluster&)> happens;
  double words, visits;  // at most: times N, times N log2 N
};

double n_log_n(int n) { return n * std::log2(n); }

void expect_cheap(const Event& event, int n, const Costs& costs) {
  const auto words = static_cast<double>(costs.words_in + costs.words_out);
  EXPECT_LE(words, event.words * n) << event.name << ", " << n << " nodes";
  EXPECT_LE(static_cast<double>(costs.visits), event.visits * n_log_n(n))
      << event.name << ", " << n << " nodes";
}

TEST(NodesCost, NoEventCostsMoreThanNLogN) {
  const Event events[] = {
      {"form", [](Cluster& cluster) { return cluster.form(); }, 12, 12},
      {"a worker dies", [](Cluster& cluster) { return cluster.lose_worker(); }, 12, 12},
      {"a node dies", [](Cluster& cluster) { return cluster.lose_nodes(1); }, 40, 40},
      {"all others die", [](Cluster& cluster) { return cluster.lose_nodes(kFew - 1); }, 40, 40},
      {"the leader dies", [](Cluster& cluster) { return cluster.lose_leader(); }, 20, 20},
  };
  Cluster few(kFew, {}), many(kMany, {});
  for (const Event& event : events) {
    const Costs small = event.happens(few), large = event.happens(many);
    expect_cheap(event, kFew, small);
    expect_cheap(event, kMany, large);
  }
}

}  // namespace
}  // namespace lockstep::simulation
