#include "launcher/processes/spawned.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/errors.h"
#include "coord/descriptors.h"
#include "launcher/options/option_table.h"

namespace lockstep::launcher {

bool is_child(pid_t pid) {
  siginfo_t info{};
  return pid > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

Result<std::optional<Spawned>> take_spawned() {
  const char* text = std::getenv(coord::kSpawnedVariable);
  if (text == nullptr) return std::optional<Spawned>();
  int fd = -1, pid = -1, workers = 0, end = 0;
  const bool read = std::sscanf(text, "%d:%d:%d%n", &fd, &pid, &workers, &end) == 3;
  if (!read || text[end] != '\0' || fd <= 2 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
      !is_child(pid))
    return misuse(std::string(coord::kSpawnedVariable) + "=" + in_quotes(text) +
                  " names no socket and child of this process; lockstep::spawn() alone sets it");
  ::unsetenv(coord::kSpawnedVariable);
  return std::optional(Spawned{{UniqueFd(fd), pid}, workers});
}

Status check_options(const Spawned& spawned, const LaunchOptions& options) {
  if (options.nproc_per_node != spawned.workers)
    return misuse("--nproc-per-node " + std::to_string(options.nproc_per_node) +
                  " in the options of lockstep::spawn(" + std::to_string(spawned.workers) +
                  ", ...): leave it out");
  std::error_code error;
  const std::string zygote = "/proc/" + std::to_string(spawned.zygote.pid) + "/exe";
  const std::string program = std::filesystem::read_symlink(zygote, error).string();
  if (!options.help && !error && options.program.front() != program)
    return misuse("in the options of lockstep::spawn() one has no value, or " +
                  launcher::in_quotes(options.program.front()) + " is none of the launcher's");
  if (options.help || options.module || options.no_python ||
      options.start_method == StartMethod::kExec)
    return misuse(
        "--help, -m, --no-python and --start-method exec make no sense in the options of "
        "lockstep::spawn(), whose workers are forked from its caller");
  return {};
}

Program running_program(const LaunchOptions& options) {
  Program program;
  program.name = program.file = options.program.front();
  program.arguments = options.program;
  program.linked = true;
  return program;
}

}  // namespace lockstep::launcher
