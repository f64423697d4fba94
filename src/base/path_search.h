// Programs in the file system. Threads: any, while nobody changes PATH.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

// A regular file that we may execute.
bool is_executable(const std::string& path);

// Where a shell would find `name`, which has no '/'; nullopt: nowhere.
std::optional<std::string> search_path(const std::string& name);

}  // namespace lockstep
