// Files of the system as a test wants them: an Env in which they can be read, and nothing else.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"

namespace lockstep::test {

// Files by their whole path; nothing else is there.
class FileTree final : public Env {
 public:
  std::map<std::string, std::string> files;

  std::uint64_t now_ns() override { return 0; }
  double wall_time_s() override { return 0; }
  Result<std::string> read(const std::string& path, std::uint64_t) override {
    const auto found = files.find(path);
    if (found == files.end()) return Error{ErrorKind::kBadData, path + " is not there"};
    return found->second;
  }
  Result<std::unique_ptr<File>> create(const std::string&) override { return none(); }
  Result<std::unique_ptr<File>> open_append(const std::string&) override { return none(); }
  Status rename(const std::string&, const std::string&) override { return none(); }
  Status remove_all(const std::string&) override { return none(); }
  Status make_dirs(const std::string&) override { return none(); }
  Status sync_dir(const std::string&) override { return none(); }
  Status truncate(const std::string&, std::uint64_t) override { return none(); }
  Result<std::vector<std::string>> list(const std::string&) override { return none(); }
  bool exists(const std::string& path) override { return files.contains(path); }

 private:
  static Error none() { return {ErrorKind::kDisk, "not here"}; }
};

}  // namespace lockstep::test
