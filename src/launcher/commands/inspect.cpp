#include "launcher/commands/inspect.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "lockstep/status.h"

namespace lockstep::launcher {
namespace {

int fail(const std::string& message) {
  log_error(message);
  return exit_code(ErrorKind::kUsage);
}

// Without /proc: as it was started. Empty: nobody knows.
std::filesystem::path this_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) return self;
  const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started == nullptr) return {};
  self = fs::canonical(started, error);
  return error ? fs::path() : self;
}

}  // namespace

int inspect_command(const std::string& command, std::span<const std::string> arguments) {
  const std::filesystem::path self = this_program();
  if (self.empty())
    return fail("cannot find the folder of this program; is there no /proc? Give its whole path");
  const std::string program = (self.parent_path() / "lockstep-inspect").string();
  // The program compares the version with its own.
  std::vector<std::string> words{program, "--for", LOCKSTEP_VERSION, command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return fail("'lockstep " + command + "' needs '" + program + "', which cannot be started: " +
              std::strerror(errno) + "; install it beside 'lockstep', from the same build");
}

}  // namespace lockstep::launcher
