#include "launcher/commands/inspect.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/exec.h"
#include "base/log.h"
#include "launcher/program/beside.h"
#include "lockstep/status.h"

namespace lockstep::launcher {
namespace {

int fail(const std::string& message) {
  log_error(message);
  return exit_code(ErrorKind::kUsage);
}

}  // namespace

int inspect_command(const std::string& command, std::span<const std::string> arguments) {
  const auto program = program_beside("lockstep-inspect");
  if (!program.ok()) return fail(program.error().message);
  // The program compares the version with its own.
  std::vector<std::string> words{*program, "--for", LOCKSTEP_VERSION, command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ::execv(program->c_str(), ExecWords(std::move(words)).get());
  return fail("'lockstep " + command + "' needs '" + *program + "', which cannot be started: " +
              std::strerror(errno) + "; install it beside 'lockstep', from the same build");
}

}  // namespace lockstep::launcher
