// Which schedules a simulation plays: `--seed N` one, `--schedules N` so many from the first. And
// what has to have happened in them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>

namespace lockstep::simulation {

// A sanitizer looks on: fewer will do, since the schedules themselves are the other build's
// business.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Seeds {
  std::uint64_t first, count;
};

// How often something has happened.
using Occasions = std::map<std::string, std::uint64_t>;

// Prints what was `seen` in all schedules. `least`: of each so many in 1,000 schedules, or they
// prove nothing; fewer schedules than that are not judged.
inline void expect_occasions(const Seeds& seeds, Occasions seen, const Occasions& least) {
  std::cout << seeds.count << " schedules";
  for (const auto& [what, times] : seen) std::cout << ", " << what << " " << times;
  std::cout << "\n";
  if (seeds.count < 1000) return;
  for (const auto& [what, times] : least) EXPECT_GE(seen[what], times * seeds.count / 1000) << what;
}

// main() of a simulation. Returns its exit code.
inline int run_simulation(int argc, char** argv, Seeds& seeds) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      seeds = {value, 1};
    } else if (std::strcmp(argv[i], "--schedules") == 0) {
      seeds.count = value;
    } else {
      std::cerr << "unknown option '" << argv[i] << "'; known: --seed N, --schedules N\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace lockstep::simulation
