// The program `lockstep-inspect`, which `lockstep` executes: `--for VERSION COMMAND ...`.
#include <cstdio>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "base/text.h"
#include "inspect/commands.h"

namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Result;
using lockstep::Status;
using lockstep::inspect::Answer;

constexpr const char* kVersion = LOCKSTEP_VERSION;

int fail(const Error& error) {
  lockstep::log_error(error.message);
  return lockstep::exit_code(error.kind);
}

int print(const Answer& answer) {
  const Status written = lockstep::write_output(lockstep::for_terminal(answer.text));
  return written.ok() ? answer.code : fail(written.error());
}

Error wrong_version(const std::string& launcher) {
  return {ErrorKind::kUsage, "'lockstep' is version " + launcher +
                                 ", 'lockstep-inspect' beside it " + kVersion +
                                 ": install both from one build"};
}

Result<Answer> answer(std::vector<std::string> words) {
  if (words.size() >= 2 && words[0] == "--for") {
    if (words[1] != kVersion) return wrong_version(words[1]);
    words.erase(words.begin(), words.begin() + 2);
  }
  const std::string command = words.empty() ? "" : words.front();
  const lockstep::inspect::Words rest = std::span(words).subspan(words.empty() ? 0 : 1);
  lockstep::Env& env = lockstep::posix_env();
  if (command == "checkpoint") return lockstep::inspect::checkpoint_command(env, rest);
  if (command == "data") return lockstep::inspect::data_command(env, rest);
  if (command == "report") return lockstep::inspect::report_command(env, rest);
  return Error{ErrorKind::kUsage,
               "lockstep-inspect has no command '" + command + "' ('lockstep help' says more)"};
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::prepare_process();
  const auto result = lockstep::guarded("lockstep-inspect", ErrorKind::kInternal, [&] {
    return answer(std::vector<std::string>(argv + 1, argv + argc));
  });
  return result.ok() ? print(*result) : fail(result.error());
}
