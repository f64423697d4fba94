#include "launcher/options/slurm.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/errors.h"
#include "base/text.h"
#include "launcher/options/hostlist.h"

namespace lockstep::launcher {
namespace {

// From here on (slurm.h of Slurm's sources): batch script, interactive shell, external processes.
constexpr std::uint64_t kFirstSpecialStep = 0xffff'fff0;
constexpr const char* kOneTask =
    "one lockstep per node: srun --ntasks-per-node=1 (it starts the workers itself, "
    "--nproc-per-node of them)";

std::optional<std::string> value_of(const Environment& environment, std::string_view name) {
  auto value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

Result<std::uint64_t> whole_number(const Environment& environment, std::string_view name) {
  const auto text = value_of(environment, name);
  if (!text)
    return misuse("in a step of Slurm (SLURM_STEP_ID is set), but " + std::string(name) +
                  " is not; give --nnodes, --node-rank and --rdzv-endpoint");
  if (const auto number = number_of<std::uint64_t>(*text)) return *number;
  return misuse(std::string(name) + "='" + *text + "' is no whole number from 0 on");
}

// "2(x3),1": 2 on each of three nodes, then 1.
bool has_several_tasks(std::string_view text) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    const auto tasks = number_of<std::uint64_t>(entry.substr(0, entry.find('(')));
    if (tasks && *tasks > 1) return true;
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return false;
}

Status check_tasks(const Environment& environment) {
  const std::string local = value_of(environment, "SLURM_LOCALID").value_or("0");
  const std::string tasks = value_of(environment, "SLURM_STEP_TASKS_PER_NODE").value_or("");
  if (local == "0" && !has_several_tasks(tasks)) return {};
  return misuse("this step of Slurm has several tasks on a node (SLURM_STEP_TASKS_PER_NODE='" +
                tasks + "', SLURM_LOCALID=" + local + "); " + kOneTask);
}

Error disagree(std::uint64_t nodes, std::uint64_t node, std::size_t listed,
               const std::string& list) {
  return misuse("Slurm's variables disagree: SLURM_STEP_NUM_NODES=" + std::to_string(nodes) +
                ", SLURM_NODEID=" + std::to_string(node) + ", SLURM_STEP_NODELIST='" + list +
                "' has " + std::to_string(listed) +
                " nodes; give --nnodes, --node-rank and --rdzv-endpoint");
}

}  // namespace

Result<std::optional<SlurmNode>> node_from_slurm(const Environment& environment) {
  if (!value_of(environment, "SLURM_STEP_ID")) return std::optional<SlurmNode>();
  LOCKSTEP_ASSIGN(const std::uint64_t step, whole_number(environment, "SLURM_STEP_ID"));
  if (step >= kFirstSpecialStep) return std::optional<SlurmNode>();
  LOCKSTEP_TRY(check_tasks(environment));
  LOCKSTEP_ASSIGN(const std::uint64_t job, whole_number(environment, "SLURM_JOB_ID"));
  LOCKSTEP_ASSIGN(const std::uint64_t nodes, whole_number(environment, "SLURM_STEP_NUM_NODES"));
  LOCKSTEP_ASSIGN(const std::uint64_t node, whole_number(environment, "SLURM_NODEID"));
  const std::string list = value_of(environment, "SLURM_STEP_NODELIST").value_or("");
  auto names = expand_hostlist(list, static_cast<std::size_t>(kMostNodes));
  if (!names.ok()) return misuse("SLURM_STEP_NODELIST: " + names.error().message);
  if (names->size() != nodes || node >= nodes) return disagree(nodes, node, names->size(), list);
  SlurmNode result;
  result.nnodes = static_cast<int>(nodes);
  result.node_rank = static_cast<int>(node);
  result.run_id = std::to_string(job) + "." + std::to_string(step);
  result.port = static_cast<int>(20'000 + (7 * (job % 10'000) + step % 10'000) % 10'000);
  result.nodes = *std::move(names);
  return std::optional(std::move(result));
}

int slurm_step_nodes(const Environment& environment) {
  const auto step = number_of<std::uint64_t>(value_of(environment, "SLURM_STEP_ID").value_or(""));
  const auto nodes = number_of<int>(value_of(environment, "SLURM_STEP_NUM_NODES").value_or(""));
  return step && *step < kFirstSpecialStep ? nodes.value_or(0) : 0;
}

std::string slurm_without_a_step(const Environment& environment) {
  const auto step = number_of<std::uint64_t>(value_of(environment, "SLURM_STEP_ID").value_or(""));
  if (step && *step < kFirstSpecialStep) return "";
  const auto nodes =
      number_of<std::uint64_t>(value_of(environment, "SLURM_JOB_NUM_NODES").value_or(""));
  if (!nodes || *nodes < 2) return "";
  return "this job of Slurm has " + std::to_string(*nodes) +
         " nodes, but the launcher was not started by srun: it uses this node alone (srun "
         "--ntasks-per-node=1 lockstep run … uses all)";
}

}  // namespace lockstep::launcher
