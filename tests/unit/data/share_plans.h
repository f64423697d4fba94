// Shares of a small set, which the tests of loaders ask for.
#pragma once

#include <vector>

#include "lockstep/data.h"

namespace lockstep::data {

inline std::vector<ShareId> all_shares(const DataPlan& plan, std::uint64_t epochs) {
  std::vector<ShareId> shares;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step)
      for (std::int64_t v = 0; v < plan.virtual_workers; ++v) shares.push_back({{epoch, step}, v});
  return shares;
}

inline const DataPlan kPlan{.dataset_size = 103, .virtual_workers = 3, .batch_size = 10, .seed = 1};

}  // namespace lockstep::data
