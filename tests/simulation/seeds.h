// Which schedules a simulation plays: `--seed N` one, `--schedules N` so many from the first.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace lockstep::simulation {

struct Seeds {
  std::uint64_t first, count;
};

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
