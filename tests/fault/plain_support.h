// Programs that know nothing of Lockstep: scripts of a test's own, under the launcher.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fault/launcher_support.h"

namespace lockstep::test {

// A python3 that can import torch: python3 itself, or what the test's environment names.
inline std::string torch_python() {
  const char* named = std::getenv("LOCKSTEP_PYTHON");
  for (const std::string candidate : {named == nullptr ? "" : named, "python3"})
    if (!candidate.empty() && run({candidate, "-c", "import torch"}).code == 0) return candidate;
  return "";
}

class Plain : public ToyRun {
 protected:
  Outcome launch(const Words& options, const Words& program,
                 const Child::Variables& variables = {}) const {
    return run(command_of(options, program), variables);
  }
  // The only folder below the log directory.
  std::filesystem::path log_folder() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "logs"))
      return entry.path();
    return {};
  }
};

}  // namespace lockstep::test
