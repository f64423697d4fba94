// A data set on disk as labelled pictures, whatever its format: folders of pictures by class (one,
// or one per split: train, validation, test), CIFAR-10 and -100, MNIST.
//
// Errors: kBadData naming the folder: not there, none of these, damaged; kDisk. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "data/image/image.h"
#include "lockstep/status.h"
#include "lockstep/transforms.h"

namespace lockstep::inspect {

struct Split {
  std::string name;  // as it is on disk: "Train", "test"; of a set without splits "all"
  std::vector<std::string> classes;
  std::vector<std::size_t> labels;  // of each picture, in the set's order
  // kBadData for a picture that is damaged.
  std::function<Status(std::size_t index, data::image::Image& out)> picture;
  std::function<std::string(std::size_t index)> picture_name;
  bool training = false;
};

struct PictureData {
  std::string format;  // "folders of pictures by class", "CIFAR-10", "MNIST"
  std::vector<Split> splits;
  transforms::Compose augmentation;  // what the tutorials apply to its training pictures
};

Result<PictureData> open_pictures(Env& env, const std::string& folder);

}  // namespace lockstep::inspect
