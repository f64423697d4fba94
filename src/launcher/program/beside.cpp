#include "launcher/program/beside.h"

#include <sys/auxv.h>

#include <filesystem>
#include <system_error>

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

// Without /proc: as it was started. Empty: nobody knows.
fs::path this_program() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) return self;
  const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started == nullptr) return {};
  self = fs::canonical(started, error);
  return error ? fs::path() : self;
}

}  // namespace

Result<std::string> program_beside(const std::string& name) {
  const fs::path self = this_program();
  if (self.empty())
    return Error{ErrorKind::kUsage,
                 "cannot find the folder of this program; is there no /proc? Give its whole path"};
  return (self.parent_path() / name).string();
}

}  // namespace lockstep::launcher
