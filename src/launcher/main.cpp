// The `lockstep` program.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/suggest.h"
#include "launcher/commands.h"
#include "launcher/options.h"

namespace {

constexpr const char* kHelp =
    "usage: lockstep COMMAND ...\n\n"
    "  run [options] program [arguments]   start and supervise a training run ('lockstep help "
    "run')\n"
    "  scale RUN_DIR WORKERS               grow or shrink a live run\n"
    "  status RUN_DIR [--json]             the members of a live run\n"
    "  version                             print the version\n"
    "  help [run]                          print this\n";

int help(const std::vector<std::string>& arguments) {
  const bool run = !arguments.empty() && arguments[0] == "run";
  std::fputs(run ? lockstep::launcher::run_help().c_str() : kHelp, stdout);
  return 0;
}

int unknown(const std::string& command) {
  const std::array<std::string, 5> known{"run", "scale", "status", "version", "help"};
  std::string message = "unknown command '" + command + "'";
  if (const auto nearest = lockstep::nearest_name(command, known))
    message += "; did you mean '" + *nearest + "'?";
  lockstep::log_error(message + " ('lockstep help' lists them)");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  const std::string command = argv[1];
  const std::vector<std::string> arguments(argv + 2, argv + argc);
  if (command == "run") return lockstep::launcher::run_command(arguments);
  if (command == "scale") return lockstep::launcher::scale_command(arguments);
  if (command == "status") return lockstep::launcher::status_command(arguments);
  if (command == "help" || command == "--help" || command == "-h") return help(arguments);
  if (command == "version" || command == "--version") {
    std::puts("lockstep " LOCKSTEP_VERSION);
    return 0;
  }
  return unknown(command);
}
