// The recipe's command line: the tutorial's arguments, under its names and with its defaults.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/trainer.h"

namespace time_budget {

struct Options {
  double train_time = 0.5;  // hours of the whole run; 0: no limit
  std::string model_name = "model_snapshot.pt";
  std::string saves = "training_saves";  // the folder of its files
  std::string data = "data/train";       // a folder for each class
  std::string weights;                   // torchvision's file of vgg19
  double lr = 1e-4;                      // of one virtual worker; the run's is that times sqrt(V)
  std::int64_t image_size = 224;
  std::int64_t classifier_width = 4096;  // the second layer has half of it

  std::string evaluate;  // a checkpoint: then there is no training
  std::string json;      // where its figures go, for `lockstep report`
  lockstep::RunOptions run;

  // training_saves/NAME.pt and training_saves/NAME_metrics.pt
  std::string snapshot() const { return saves + "/" + model_name; }
  std::string metrics() const;
};

// Ends the process for --help and for a wrong command line.
Options parse(int argc, char** argv);

}  // namespace time_budget
