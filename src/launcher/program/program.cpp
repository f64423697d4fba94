#include "launcher/program/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/path_search.h"
#include "launcher/program/needed_libraries.h"
#include "launcher/program/startable.h"

namespace lockstep::launcher {
namespace {

Result<std::string> find_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    LOCKSTEP_TRY(check_startable(name));
    return name;
  }
  if (auto found = search_path(name)) {
    LOCKSTEP_TRY(check_startable(*found));
    return *std::move(found);
  }
  std::string message = "cannot start '" + name + "': no such program in PATH";
  if (is_executable("./" + name))
    message += "; did you mean './" + name + "'?";
  else if (::access(name.c_str(), F_OK) == 0)
    message += ", and the one here is not executable; if it is Python's, give --run-path before it";
  return Error{ErrorKind::kUsage, message};
}

Result<Program> python_program(const LaunchOptions& options) {
  const char* chosen = std::getenv("PYTHON_EXEC");  // torchrun's variable
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  Program program;
  program.name = options.program.front();
  LOCKSTEP_ASSIGN(program.file, find_in_path(python));
  program.arguments = {python, "-u"};
  if (options.module) program.arguments.emplace_back("-m");
  program.arguments.insert(program.arguments.end(), options.program.begin(), options.program.end());
  program.linked = options.linked;  // a module of its own may
  return program;
}

}  // namespace

Result<Program> find_program(const LaunchOptions& options) {
  const std::string& name = options.program.front();
  if (options.module) return python_program(options);
  if (options.run_path || (!options.no_python && name.ends_with(".py"))) {
    if (::access(name.c_str(), R_OK) != 0)
      return Error{ErrorKind::kUsage, "cannot start '" + name + "': " + std::strerror(errno)};
    return python_program(options);
  }
  Program program;
  program.name = options.program.front();
  LOCKSTEP_ASSIGN(program.file, find_in_path(name));
  program.arguments = options.program;
  const auto version = linked_version(program.file, LoaderPlaces::of_this_process(), coord::kNote);
  if (version && *version != coord::kProtocolVersion)
    return coord::wrong_version(*version, coord::kProtocolVersion);
  program.linked = version.has_value() || options.linked;
  return program;
}

}  // namespace lockstep::launcher
