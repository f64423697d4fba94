// Folders of pictures by class, ROOT/CLASS/**/NAME, in torchvision's order
// (torchvision 0.26.0, datasets/folder.py): classes by name, of each class its folders by path, of
// each folder its files by name, all compared byte by byte. Links are followed.
//
// Errors: kBadData naming the folder, what is missing and what to do, kDisk for what cannot be
// listed. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::data {

struct ImageFile {
  std::string path;
  std::int64_t label = 0;  // index in `classes`
  std::uint64_t bytes = 0;
};

struct ImageFolder {
  std::vector<std::string> classes;
  std::vector<ImageFile> files;
};

// A class without a picture is an error, as it is there. Names that torchvision takes for pictures
// but that we cannot read (.bmp, .tiff, .webp and the like) are an error too: left out, they would
// shift all ids.
Result<ImageFolder> read_image_folder(const std::string& root);

}  // namespace lockstep::data
