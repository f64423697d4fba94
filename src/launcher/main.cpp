// The `lockstep` program.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/process_setup.h"
#include "base/stop_request.h"
#include "base/suggest.h"
#include "coord/version.h"
#include "data/copy.h"
#include "data/download.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/inspect.h"
#include "launcher/options/options.h"

namespace {

// By which lockstep::spawn() knows a launcher that fits.
[[gnu::section(".note.lockstep"), gnu::used, gnu::aligned(4)]] const lockstep::coord::Note kNote =
    lockstep::coord::kLauncherNote;

constexpr const char* kHelp =
    "usage: lockstep COMMAND ...\n\n"
    "  run [options] program [arguments]   start and supervise a training run ('lockstep help "
    "run')\n"
    "  scale RUN_DIR WORKERS               grow or shrink a live run\n"
    "  status RUN_DIR|HOST[:PORT]|--id ID  how a run is, and the members of a live one\n"
    "  stop HOST[:PORT]|--id ID            end a run on several nodes\n"
    "  data get SET DIR                    download mnist, cifar10 or cifar100, checked\n"
    "  data show DIR [--out SHEET.html]    counts and samples of a data set ('lockstep data show "
    "--help')\n"
    "  copy SRC DST                        copy a folder or a file, what is not there yet\n"
    "  checkpoint ls|show|verify|diff|export ...\n"
    "                                      look into checkpoints ('lockstep checkpoint help')\n"
    "  report RUN... [--out PAGE.html]     table and graphs of runs ('lockstep report --help')\n"
    "  key [--print | FILE]                make a key for runs on several machines\n"
    "  version                             print the version\n"
    "  help [COMMAND]                      print this, or what a command takes\n";

constexpr const char* kDataHelp =
    "usage: lockstep data get mnist|cifar10|cifar100 DIR\n"
    "       lockstep data show DIR [--out SHEET.html]   ('lockstep data show --help')\n\n"
    "get: downloads a data set from where torchvision has it, checks its SHA-256 and unpacks it "
    "to\n"
    "where torchvision looks for it: MNIST's four files in DIR/MNIST/raw, CIFAR's in\n"
    "DIR/cifar-10-batches-py or DIR/cifar-100-python. What is there already is checked and kept,\n"
    "what is damaged or missing is replaced.\n"
    "show: counts and samples of a data set.\n";

constexpr const char* kCopyHelp =
    "usage: lockstep copy SRC DST\n\n"
    "Copies all that is in the folder SRC into the folder DST (made if it is not there), or the\n"
    "file SRC to the file DST, several files at a time. A file that is there with equal size and\n"
    "time of change is kept, so the same command goes on with a copy that was broken off.\n";

int usage(const std::string& message) {
  lockstep::log_error(message);
  return lockstep::exit_code(lockstep::ErrorKind::kUsage);
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

int help(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return lockstep::launcher::print_output(kHelp);
  if (arguments.size() > 1) return usage("help takes one command, or none");
  const std::string& command = arguments[0];
  if (command == "run") return lockstep::launcher::print_output(lockstep::launcher::run_help());
  if (command == "scale") return lockstep::launcher::print_output(lockstep::launcher::kScaleHelp);
  if (command == "status") return lockstep::launcher::print_output(lockstep::launcher::kStatusHelp);
  if (command == "stop") return lockstep::launcher::print_output(lockstep::launcher::kStopHelp);
  if (command == "key") return lockstep::launcher::print_output(lockstep::launcher::kKeyHelp);
  if (command == "data") return lockstep::launcher::print_output(kDataHelp);
  if (command == "copy") return lockstep::launcher::print_output(kCopyHelp);
  if (command == "checkpoint" || command == "report")
    return lockstep::launcher::inspect_command(command, std::array<std::string, 1>{"--help"});
  const std::array<std::string, 9> known{"run",  "scale",      "status", "stop", "data",
                                         "copy", "checkpoint", "report", "key"};
  return usage("no help on '" + command + "'" + lockstep::suggestion(command, known) +
               " ('lockstep help' lists the commands)");
}

int version(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return usage("version takes no argument, but got '" + arguments[0] + "'");
  return lockstep::launcher::print_output("lockstep " LOCKSTEP_VERSION "\n");
}

// torchrun has no commands: its options or the program come first.
bool is_of_run(const std::string& word) {
  return word.starts_with('-') || word.ends_with(".py") || word.find('/') != std::string::npos;
}

int unknown(const std::string& command) {
  const std::array<std::string, 11> known{"run",  "scale",   "status",     "stop",
                                          "data", "copy",    "checkpoint", "report",
                                          "key",  "version", "help"};
  return usage(
      "unknown command '" + command + "'" + lockstep::suggestion(command, known) +
      (is_of_run(command) ? "; programs are started by 'lockstep run [options] program'" : "") +
      " ('lockstep help' lists the commands)");
}

lockstep::Status get(const std::string& name, const std::string& folder) {
  std::vector<std::string> known;
  for (const lockstep::data::RemoteSet& set : lockstep::data::remote_sets()) {
    known.push_back(set.name);
    if (set.name != name) continue;
    const lockstep::StopRequest stop;
    return lockstep::data::download_below(folder, set, lockstep::data::progress_to(2),
                                          lockstep::StopRequest::made);
  }
  return lockstep::Error{lockstep::ErrorKind::kUsage, "no data set '" + name + "' is known" +
                                                          lockstep::suggestion(name, known) +
                                                          " ('lockstep help data')"};
}

int data(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "show")
    return lockstep::launcher::inspect_command("data", arguments);
  if (asks_for_help(arguments)) return help({"data"});
  if (arguments.size() != 3 || arguments[0] != "get")
    return usage("usage: lockstep data get mnist|cifar10|cifar100 DIR, or lockstep data show DIR");
  const lockstep::Status status = get(arguments[1], arguments[2]);
  if (status.ok()) return 0;
  lockstep::log_error(status.error().message);
  return lockstep::exit_code(status.error().kind);
}

int copy(const std::vector<std::string>& arguments) {
  if (asks_for_help(arguments)) return help({"copy"});
  if (arguments.size() != 2) return usage("usage: lockstep copy SRC DST");
  const lockstep::StopRequest stop;
  const auto copied =
      lockstep::data::copy_all(arguments[0], arguments[1], 4, lockstep::StopRequest::made);
  if (!copied.ok()) {
    lockstep::log_error(copied.error().message);
    return lockstep::exit_code(copied.error().kind);
  }
  lockstep::log_info(std::to_string(copied->files) + " files copied, " +
                     std::to_string(copied->bytes) + " bytes; " + std::to_string(copied->kept) +
                     " were there already");
  return lockstep::launcher::print_output("end copy data from " + arguments[0] + " to " +
                                          arguments[1] + "\n");
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
  if (asks_for_help(arguments) &&
      (command == "scale" || command == "status" || command == "stop" || command == "key"))
    return help({command});
  if (command == "scale") return lockstep::launcher::scale_command(arguments);
  if (command == "status") return lockstep::launcher::status_command(arguments);
  if (command == "stop") return lockstep::launcher::stop_command(arguments);
  if (command == "key") return lockstep::launcher::key_command(arguments);
  if (command == "data") return data(arguments);
  if (command == "copy") return copy(arguments);
  if (command == "checkpoint" || command == "report")
    return lockstep::launcher::inspect_command(command, arguments);
  if (command == "help" || command == "--help" || command == "-h") return help(arguments);
  if (command == "version" || command == "--version") return version(arguments);
  return unknown(command);
}
