// Labelled greyscale images out of IDX files, in the names and folders that MNIST is kept in.
//
// Errors: kBadData naming path, found, expected, what to do. Threads: values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "data/idx.h"
#include "lockstep/status.h"

namespace lockstep::data {

// A pair's file names, without folder and `.gz`.
struct ImageFiles {
  std::string images, labels;
};
ImageFiles train_files();  // train-images-idx3-ubyte, train-labels-idx1-ubyte
ImageFiles test_files();   // t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte

struct LabelledImages {
  IdxArray images;  // uint8 [count, rows, columns]
  IdxArray labels;  // uint8 [count], below the number of classes

  std::int64_t count() const { return images.header.sizes[0]; }
  std::int64_t rows() const { return images.header.sizes[1]; }
  std::int64_t columns() const { return images.header.sizes[2]; }
};

Result<LabelledImages> read_images(Env& env, const std::string& images_path,
                                   const std::string& labels_path, int classes = 10);

// Looks in FOLDER/MNIST/raw (torchvision's layout), FOLDER/raw and FOLDER; plain before .gz, and
// the spelling `train-images.idx3-ubyte` too.
Result<LabelledImages> read_mnist(Env& env, const std::string& folder, const ImageFiles& files);

}  // namespace lockstep::data
