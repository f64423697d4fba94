// What the tutorial prints. Pure.
#pragma once

#include <string>

#include "lockstep/trainer.h"

namespace cifar_cluster {

// `train | epoch: 1 | loss: 2.3026` and `val | epoch: 1 | loss: 2.3026 | accuracy: 0.1000 `, each
// for every virtual worker, as each rank of the original prints them.
std::string epoch_lines(const lockstep::EpochEnd& end);

}  // namespace cifar_cluster
