// The words after a sub-command's name: paths, flags (`--json`) and options with a value (`--out
// FILE`, `--out=FILE`), in any order; what follows `--` is a path whatever it looks like.
//
// Errors: kUsage, with the nearest known name and the usage line. Threads: values.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::inspect {

struct Syntax {
  std::string usage;                // "lockstep checkpoint ls DIR [--json]"
  std::vector<std::string> flags;   // with their dashes
  std::vector<std::string> values;  // with their dashes
  std::size_t least = 1, most = 1;  // paths
};

struct Arguments {
  std::vector<std::string> paths;
  std::set<std::string> flags;
  std::map<std::string, std::string> values;

  bool has(const std::string& flag) const { return flags.contains(flag); }
  std::optional<std::string> value(const std::string& name) const;
};

Result<Arguments> parse(std::span<const std::string> words, const Syntax& syntax);

}  // namespace lockstep::inspect
