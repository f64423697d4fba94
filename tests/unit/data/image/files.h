// golden/'s files, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace lockstep::data::image {

inline std::string golden_folder() {
  return LOCKSTEP_GOLDEN_PICTURES;  // not __FILE__, which a compiler cache may shorten
}

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::uint8_t> bytes_of(const std::string& path) {
  const std::string text = text_of(path);
  return {text.begin(), text.end()};
}

// Names of golden/'s pictures that begin and end so.
inline std::vector<std::string> golden_files(const std::string& start,
                                             const std::string& end = "") {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start) && name.ends_with(end)) names.push_back(name);
  }
  return names;
}

}  // namespace lockstep::data::image
