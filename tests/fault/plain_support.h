// Programs that know nothing of Lockstep: scripts of a test's own, under the launcher.
#pragma once

#include <filesystem>
#include <string>

#include "fault/launcher_support.h"

namespace lockstep::test {

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
