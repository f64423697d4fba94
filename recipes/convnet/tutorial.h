// The loss lines that the tutorial printed, and how a run's compare with them. Without libtorch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "mode.h"
#include "records.h"

namespace convnet {

constexpr int kTutorialGpus = 4;

struct Published {
  std::string_view run;    // the document's words for it
  std::int64_t every = 0;  // steps from line to line, the first included
  std::span<const double> losses;
};
// The document has no printout of Horovod, whose arithmetic is DistributedDataParallel's.
Published published_for(Mode mode);

struct Agreement {
  int reached = 0;            // published lines that the run came to
  int equal = 0;              // to all four decimals
  std::int64_t most_off = 0;  // in units of 0.0001
};
Agreement agreement(const Published& published, const Losses& losses);
std::string sentence(const Published& published, const Agreement& found);

// For the run's end: prints the sentence. kBadData if a line is more than 0.0001 off.
lockstep::Status check_against_tutorial(Mode mode, const std::string& run_directory);

}  // namespace convnet
