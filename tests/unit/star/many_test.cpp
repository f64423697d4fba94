// 200 agents in one process, over TLS: what is said, and that all get there. Times are printed:
// they are of one thread that is all 200 at once.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>

#include "unit/star/star_test.h"

namespace lockstep::star::test {
namespace {

constexpr int kMany = 200;

class Many : public StarTest {
 protected:
  void SetUp() override {
    StarTest::SetUp();
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 3 * kMany) GTEST_SKIP() << "needs " << 3 * kMany << " descriptors";
    rules.nodes = kMany;
    rules.max_restarts = 1;
    rules.limit = 15'000'000'000;
  }
  int words() const {
    int sum = 0;
    for (const auto& agent : agents) sum += agent ? agent->words : 0;
    return sum;
  }
  // Nobody is told more than a few words for one event, besides heartbeats.
  void event(const char* what, const std::function<bool()>& done) {
    const int before = words();
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_TRUE(run_until(done, 60s)) << what;
    const double time =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    const double each = static_cast<double>(words() - before) / kMany;
    const double beats = time / std::chrono::duration<double>(beat(rules.limit, kMany)).count();
    std::printf("%-32s %6.3f s, %5.1f words to each\n", what, time, each);
    EXPECT_LT(each, 12 + 2 * beats) << what;
  }
};

TEST_F(Many, FormRunLoseOneAndEnd) {
  lead();
  for (int i = 1; i < kMany; ++i) join(i);
  event("form, and begin an attempt", [&] { return all_run(1); });
  agents.front().reset();
  event("a node dies: all end", [&] {
    return leader->runs == 0 &&
           std::ranges::all_of(agents, [](const auto& a) { return !a || a->runs == 0; });
  });
  agents.erase(agents.begin());
  Given back = given(1);
  back.incarnation = 5000;
  join(back);
  event("it comes back: the next attempt", [&] { return all_run(2); });
  all_end_well();
  event("all end well", [&] { return all_have_ended(0); });
}

}  // namespace
}  // namespace lockstep::star::test
