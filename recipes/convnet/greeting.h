// What the tutorial's notebook prints before it trains.
#pragma once

#include "options.h"

namespace convnet {

// libtorch's version, whether there is CUDA, the number of devices and the first one's name (here
// CPUs), print(model), and for dp `Using  4  GPUs!`. Before lockstep::init(), so once. On standard
// error, whether --gpus starts workers here.
void greet(const Options& options);

}  // namespace convnet
