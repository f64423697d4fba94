// The `lockstep` program.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/process_setup.h"
#include "base/suggest.h"
#include "data/download.h"
#include "launcher/commands.h"
#include "launcher/inspect.h"
#include "launcher/options.h"

namespace {

constexpr const char* kHelp =
    "usage: lockstep COMMAND ...\n\n"
    "  run [options] program [arguments]   start and supervise a training run ('lockstep help "
    "run')\n"
    "  scale RUN_DIR WORKERS               grow or shrink a live run\n"
    "  status RUN_DIR [--json]             how a run is, and the members of a live one\n"
    "  data get mnist DIR                  download MNIST, checked, into DIR/MNIST/raw\n"
    "  data show DIR [--out SHEET.html]    counts and samples of a data set ('lockstep data show "
    "--help')\n"
    "  checkpoint ls|show|verify|diff|export ...\n"
    "                                      look into checkpoints ('lockstep checkpoint help')\n"
    "  report RUN... [--out PAGE.html]     table and graphs of runs ('lockstep report --help')\n"
    "  version                             print the version\n"
    "  help [run]                          print this\n";

int help(const std::vector<std::string>& arguments) {
  const bool run = !arguments.empty() && arguments[0] == "run";
  return lockstep::launcher::print_output(run ? lockstep::launcher::run_help() : kHelp);
}

int unknown(const std::string& command) {
  const std::array<std::string, 8> known{"run",        "scale",  "status",  "data",
                                         "checkpoint", "report", "version", "help"};
  std::string message = "unknown command '" + command + "'";
  if (const auto nearest = lockstep::nearest_name(command, known))
    message += "; did you mean '" + *nearest + "'?";
  lockstep::log_error(message + " ('lockstep help' lists them)");
  return 2;
}

int data(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "show")
    return lockstep::launcher::inspect_command("data", arguments);
  lockstep::Status status;
  if (arguments.size() != 3 || arguments[0] != "get" || arguments[1] != "mnist")
    status = lockstep::Error{lockstep::ErrorKind::kUsage,
                             "usage: lockstep data get mnist DIR (no other data set is known), or "
                             "lockstep data show DIR"};
  else
    status = lockstep::data::download_mnist(arguments[2], lockstep::data::progress_to(2));
  if (status.ok()) return 0;
  lockstep::log_error(status.error().message);
  return lockstep::exit_code(status.error().kind);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::prepare_process();
  if (argc < 2) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  const std::string command = argv[1];
  const std::vector<std::string> arguments(argv + 2, argv + argc);
  if (command == "run") return lockstep::launcher::run_command(arguments);
  if (command == "scale") return lockstep::launcher::scale_command(arguments);
  if (command == "status") return lockstep::launcher::status_command(arguments);
  if (command == "data") return data(arguments);
  if (command == "checkpoint" || command == "report")
    return lockstep::launcher::inspect_command(command, arguments);
  if (command == "help" || command == "--help" || command == "-h") return help(arguments);
  if (command == "version" || command == "--version")
    return lockstep::launcher::print_output("lockstep " LOCKSTEP_VERSION "\n");
  return unknown(command);
}
