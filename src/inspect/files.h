// What lies at a path, links followed; a path that cannot be looked at is neither.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::inspect {

inline bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

inline bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace lockstep::inspect
