// For tests beside Python: which interpreter, and what a command prints.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace lockstep::test {

// LOCKSTEP_PYTHON, or python3, if it can import `modules` ("torch, numpy"). Empty: there is none.
inline std::string python_with(const std::string& modules) {
  const char* const named = std::getenv("LOCKSTEP_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  const std::string probe = python + " -c 'import " + modules + "' 2>/dev/null";
  return std::system(probe.c_str()) == 0 ? python : "";
}

// What it writes to standard output; "failed: " before that if it does not end with 0.
inline std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) output += line.data();
  return ::pclose(pipe) == 0 ? output : "failed: " + output;
}

}  // namespace lockstep::test
