// The classifier's command line: what the tutorial has as constants, with its values.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/trainer.h"

namespace classifier {

struct Options {
  std::string data;   // a folder with Train, Validation and perhaps Test, or an archive of one
  std::string stage;  // a folder that archives are unpacked into
  std::string weights;
  std::string backbone = "auto";  // auto | frozen | trained
  std::string checkpoint_file = "output_model/best_model.pt";
  std::int64_t image_size = 244;
  double lr = 1e-4;
  double label_smoothing = 0.1;
  lockstep::RunOptions run;

  bool frozen() const { return backbone == "frozen" || (backbone == "auto" && !weights.empty()); }
};

// Ends the process for --help and for a wrong command line.
Options parse(int argc, char** argv);

}  // namespace classifier
