// PyTorch's toy model and its trainer, whichever way the workers start.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/command_line.h"
#include "lockstep/lockstep.h"

namespace multigpu {

struct Options {
  // true: a file of weights and epoch, which a run without records goes on from; false: of weights.
  bool snapshots = true;
  std::string file;
  std::int64_t save_every = 10;
  bool mean_squared_error = true;
  lockstep::RunOptions run;
};

// The defaults of `program`.
Options options_of(const std::string& program, bool snapshots);

// All options but the program's own, which `line` has already.
void parse(lockstep::CommandLine& line, Options& options, int argc, char** argv);

// In each worker.
lockstep::Status train(lockstep::Context& context, const Options& options);

}  // namespace multigpu
