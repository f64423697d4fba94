// The recipe's command line; defaults are the tutorial's values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/context.h"
#include "lockstep/optim.h"
#include "lockstep/trainer.h"
#include "mode.h"

namespace convnet {

// apex.amp's opt_level, and its half type: Apex knows float16 alone.
enum class OptLevel { kO0, kO1, kO2, kO3 };
enum class HalfType { kFloat16, kBFloat16 };

struct Options {
  Mode mode = Mode::kDistributed;
  std::string data = "synthetic";  // or a folder with MNIST's IDX files
  std::string optimizer = "sgd";   // sgd | adam
  double lr = 1e-4;
  double momentum = 0;  // sgd only
  int image_size = 0;   // to which pictures are scaled; 0: as they come
  int threads = 0;
  OptLevel opt_level = OptLevel::kO0;
  HalfType half = HalfType::kFloat16;
  int replicas = 0;  // of kDataParallel
  int spawned = 0;   // workers that the program starts itself; 0: it is one process, or in a run
  bool others_start = false;  // --gpus was given, but the workers are a launcher's
  // --nodes above 1: the workers that this command starts are some of the run's.
  std::optional<lockstep::Rendezvous> rendezvous = std::nullopt;
  bool check_against_tutorial = false;
  lockstep::RunOptions run;

  // Of the commands that make a run by hand, by --nr or by RANK.
  bool first_command() const;
};

// Ends the process for --help and for a wrong command line.
Options parse(int argc, char** argv);
std::unique_ptr<lockstep::Optimizer> make_optimizer(const Options& options,
                                                    std::vector<at::Tensor> parameters);

}  // namespace convnet
