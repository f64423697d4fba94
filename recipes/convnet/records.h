// What a run directory says of its run. Without libtorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/status.h"
#include "mode.h"

namespace convnet {

struct StepLoss {
  double loss = 0;           // virtual worker 0's, as it is printed
  std::int64_t samples = 0;  // of all virtual workers
};
// By step of the run, from 0.
using Losses = std::map<std::int64_t, StepLoss>;

struct Record {
  std::string folder;
  Mode mode = Mode::kDistributed;
  int workers = 0;     // virtual workers; of dp: replicas
  double seconds = 0;  // 0: it is not finished
  Losses losses;
};

// Of metrics.jsonl. kBadData: there is none, or it is no such file.
lockstep::Result<Losses> losses_of(const std::string& folder);
// The losses, and what manifest.json, config.toml and result.json have. kBadData: not a run of this
// recipe.
lockstep::Result<Record> read_record(const std::string& folder);

}  // namespace convnet
