// The recipe's command line: the tutorial's arguments, under its names and with its defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/context.h"
#include "lockstep/trainer.h"

namespace cifar_cluster {

struct Options {
  std::string enable_gpu = "auto";  // true | false | auto
  double lr = 0.01;                 // of one virtual worker
  bool custom_data = false;         // random data in place of CIFAR-10
  std::string data_url;             // a folder; beside the program: input_dir
  std::string output_dir;           // the same: output_dir

  // How processes that are started by hand find each other; under the launcher they already have.
  std::optional<lockstep::Rendezvous> rendezvous;

  std::int64_t image_size = 32;
  std::int64_t train_samples = 5000, val_samples = 1000;  // of the random data
  bool channels_last = false;                             // --memory-format
  bool module_prefix =
      true;                 // names in epoch_N.pth as DistributedDataParallel's state_dict has them
  std::string weights;      // an epoch_N.pth that a new run goes on from
  std::uint64_t seed = 0;   // of the random data and the model: --seed, else this year
  bool seed_given = false;  // else a run that is there has its own
  std::string warnings;     // lines for standard error
  lockstep::RunOptions run;  // its seed is that of the sampler alone
};

// Ends the process for --help, for a wrong command line, and for what is asked for and cannot be: a
// GPU, storage elsewhere.
Options parse(int argc, char** argv);

// What the program says at its start: a line on standard output, warnings on standard error.
void greet(const Options& options);

}  // namespace cifar_cluster
