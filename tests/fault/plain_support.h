// Programs that know nothing of Lockstep: scripts of a test's own, under the launcher.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "fault/launcher_support.h"

namespace lockstep::test {

class Plain : public ToyRun {
 protected:
  std::string script(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  Outcome launch(const Words& options, const Words& program,
                 const Child::Variables& variables = {}) const {
    Words words{LOCKSTEP_PROGRAM, "run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), program.begin(), program.end());
    return run(words, variables);
  }
  // The only folder below the log directory.
  std::filesystem::path log_folder() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "logs"))
      return entry.path();
    return {};
  }
};

}  // namespace lockstep::test
