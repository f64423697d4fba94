// Folders of pictures by class, ROOT/CLASS/**/NAME, in torchvision's order
// (torchvision 0.26.0, datasets/folder.py): classes by name, of each class its folders by path, of
// each folder its files by name, all compared byte by byte. Links are followed.
//
// Errors: kBadData naming the folder, what is missing and what to do, kDisk for what cannot be
// listed. Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
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
  std::string root;
  std::vector<std::string> classes;
  std::vector<ImageFile> files;
  // What is in the folders and not in the set, by ending (".bmp", "._*"), lower case. Of the
  // root: pictures alone, which are in no class.
  std::map<std::string, std::int64_t> left_out;
  std::int64_t beside_classes = 0;
  std::vector<std::string> no_classes;  // hidden folders without a picture, __MACOSX among them
};

// The name alone decides what is in the set: .jpg, .jpeg or .png, in capitals too, and no "._" in
// front, as macOS names what it knows of a file. How a file is decoded its content decides. A class
// without a picture is an error, as it is in torchvision.
Result<ImageFolder> read_image_folder(const std::string& root);

// What of it is not in the set, and what would bring it in: one line; empty if nothing is missing.
std::string left_out_by_name(const ImageFolder& folder);

}  // namespace lockstep::data
