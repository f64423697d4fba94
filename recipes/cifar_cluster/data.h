// The tutorial's data: CIFAR-10, pictures by class in folders, or its random data set.
//
// Errors: kBadData for data that is not there or not whole.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data.h"
#include "options.h"

namespace cifar_cluster {

struct Data {
  std::shared_ptr<const lockstep::data::Dataset> train, val;  // float32 [B, 3, S, S], int64 [B]
  std::int64_t classes = 10;
};

// The random data is drawn from the default generator: training's pictures, then validation's.
lockstep::Result<Data> open_data(const Options& options);

}  // namespace cifar_cluster
