// What lies at a path, links followed, and what a command may write there.
//
// Errors: each function says. Threads: any.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::inspect {

// A path that cannot be looked at is neither.
inline bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

inline bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// kDisk for the first that cannot be looked at, with the reason (no permission, links that lead in
// a circle): nobody knows whether it is there. Nothing: each is there or is not.
std::optional<Error> hidden_at(std::initializer_list<std::string> paths);

// kUsage where what is read would be lost: `out` is one of `inputs`, whatever its name, or a file
// in a folder among them that is none of a command's own pages and exports.
Status check_not_read(Env& env, const std::string& out, std::span<const std::string> inputs);

}  // namespace lockstep::inspect
