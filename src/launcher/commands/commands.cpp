#include "launcher/commands/commands.h"

#include <unistd.h>

#include <chrono>
#include <optional>

#include "base/deadline.h"
#include "base/env.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "base/text.h"
#include "coord/faults.h"
#include "coord/keeper_wire.h"
#include "coord/table.h"
#include "launcher/agent.h"
#include "launcher/linked/run_directory.h"
#include "launcher/options/gpus.h"
#include "launcher/options/option_table.h"
#include "launcher/options/rendezvous.h"
#include "launcher/processes/spawned.h"
#include "launcher/reports/failure_report.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartTime = 30s;  // for a run that is about to train

int fail(const Error& error) {
  log_error(error.message);
  return exit_code(error.kind);
}

// What needs no launcher to be seen.
Result<std::uint32_t> to_scale(const std::string& text) {
  const auto workers = to_int("", text, 1, coord::kMaxWorkers);
  if (workers.ok()) return static_cast<std::uint32_t>(*workers);
  return misuse("cannot scale to '" + text + "' workers: a whole number from 1 to " +
                std::to_string(coord::kMaxWorkers) +
                (text == "0" ? "; end the run with SIGTERM to the launcher instead"
                             : "; usage: lockstep scale RUN_DIR WORKERS"));
}

// An option that would do nothing is refused. A variable of the environment is for all commands.
Status check_effects(const LaunchOptions& options, const Program& program) {
  if (program.linked && options.virtual_local_rank)
    return misuse("--virtual-local-rank is for the GPUs of plain programs, and '" + program.name +
                  "' links Lockstep; leave the option out");
  if (program.linked && !options.of_plain.empty())
    return misuse(options.of_plain.front() + " is for the store of plain programs, and '" +
                  program.name + "' links Lockstep and needs none; leave the option out");
  if (program.linked) return {};
  std::string option, why;
  if (options.start_method == StartMethod::kFork)
    option = "--start-method fork", why = "it has no fork point";
  if (!options.of_linked.empty())
    option = options.of_linked.front(), why = option == "--tie-break"
                                                  ? "its nodes do not go on without each other"
                                                  : "it has no steps, to which the option belongs";
  if (option.empty()) return {};
  return misuse(option + ": '" + program.name + "' does not link Lockstep, so " + why +
                "; leave the option out, or say that it does (--linked)");
}

// A run's table has a member of each node.
Status check_nodes(const LaunchOptions& options, const Program& program) {
  const auto most = static_cast<int>(coord::kMaxHosts);
  if (!program.linked || options.nodes.nnodes <= most) return {};
  return misuse(options.nodes.nnodes_from + ": '" + program.name +
                "' links Lockstep, and such a run has at most " + std::to_string(most) +
                " nodes; start fewer, with more workers on each (--nproc-per-node)");
}

// Those of a program that may be scaled are known once it says how far: Descriptions::add.
Status check_local_ranks(const LaunchOptions& options, const Program& program) {
  if (program.linked)
    return check_local_ranks(options, coord::kMaxWorkers, "a run has no more workers");
  const std::string count = std::to_string(options.nproc_per_node);
  return check_local_ranks(options, static_cast<std::uint32_t>(options.nproc_per_node),
                           "--nproc-per-node " + count);
}

}  // namespace

int print_output(const std::string& text) {
  const Status written = write_output(for_terminal(text));
  return written.ok() ? 0 : fail(written.error());
}

namespace {

// Descriptors, children and control sockets are found there.
Status check_proc() {
  if (::access("/proc/self/fd", X_OK) == 0) return {};
  return Error{ErrorKind::kUnavailable,
               "there is no /proc, which 'lockstep run' needs: mount it (mount -t proc proc "
               "/proc)"};
}

Status check_faults(const LaunchOptions& options) {
  LOCKSTEP_ASSIGN(const auto faults, coord::parse_faults(options.inject));
  const int nodes = options.nodes.nnodes;
  for (const coord::Fault& fault : faults)
    if (fault.host && *fault.host >= nodes)
      return Error{ErrorKind::kUsage,
                   "--inject: in '" + fault.text + "': there is no node " +
                       std::to_string(*fault.host) + ": the run has " + std::to_string(nodes) +
                       (nodes == 1 ? " node" : " nodes") + " (--nnodes), numbered from 0"};
  return {};
}

// The number of workers is settled last: an NVIDIA driver may be waited for.
Result<Program> program_for(LaunchOptions& options, bool running,
                            std::span<const std::string> arguments) {
  LOCKSTEP_ASSIGN(Program program,
                  running ? Result<Program>(running_program(options)) : find_program(options));
  LOCKSTEP_TRY(check_effects(options, program));
  LOCKSTEP_TRY(check_nodes(options, program));
  if (options.nodes.nnodes > 1) LOCKSTEP_TRY(check_endpoint(options, arguments));
  LOCKSTEP_TRY(settle_workers(options, program.linked));
  LOCKSTEP_TRY(check_local_ranks(options, program));
  return program;
}

// The run's exit code; an error: there was no run. What is not used up stays open until the error
// is printed: who waits there takes its end for the launcher's, and says that the error is above.
Result<int> run(std::span<const std::string> arguments, std::optional<Spawned>&& spawned,
                std::optional<Attached>&& attached) {
  LOCKSTEP_ASSIGN(LaunchOptions options, parse_run_options(arguments, process_environment()));
  if (attached) fit_options(options, *attached);
  if (spawned) LOCKSTEP_TRY(check_options(*spawned, options));
  if (options.help) return print_output(run_help());
  LOCKSTEP_TRY(check_proc());
  LOCKSTEP_TRY(check_faults(options));
  LOCKSTEP_ASSIGN(Program program, program_for(options, spawned || attached, arguments));
  for (const std::string& line : options.notices) log_warning(line);
  if (!program.linked)
    for (const std::string& line : options.notices_of_plain) log_warning(line);
  LOCKSTEP_ASSIGN(const auto agent, Agent::open(std::move(options), std::move(program),
                                                std::move(spawned), std::move(attached)));
  return agent->run();
}

}  // namespace

int run_command(std::span<const std::string> arguments) {
  if (auto checked = check_working_directory(); !checked.ok()) return fail(checked.error());
  auto spawned = take_spawned();
  if (!spawned.ok()) return fail(spawned.error());
  auto attached = take_attached();
  if (!attached.ok()) return fail(attached.error());
  const bool by_a_program = *spawned || *attached;
  const auto code = run(arguments, *std::move(spawned), *std::move(attached));
  if (code.ok()) return *code;
  if (!by_a_program)
    write_own_error_file(error_file_text(code.error().message, posix_env().wall_time_s(),
                                         exit_code(code.error().kind)));
  return fail(code.error());
}

int scale_command(std::span<const std::string> arguments) {
  if (arguments.size() != 2) return fail(misuse("usage: lockstep scale RUN_DIR WORKERS"));
  const auto workers = to_scale(arguments[1]);
  if (!workers.ok()) return fail(workers.error());
  const Deadline deadline = Deadline::in(kStartTime);
  auto reply = ask_launcher(arguments[0], coord::message::Scale{*workers});
  while (reply.ok() && !reply->ok && reply->kind == ErrorKind::kUnavailable && !deadline.passed()) {
    pause(100ms);
    reply = ask_launcher(arguments[0], coord::message::Scale{*workers});
  }
  if (!reply.ok()) return fail(reply.error());
  if (!reply->ok) return fail({reply->kind, reply->text});
  return print_output(reply->text + "\n");
}

}  // namespace lockstep::launcher
