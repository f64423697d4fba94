#include "launcher/processes/worker_env.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "control/key.h"
#include "coord/descriptors.h"
#include "coord/faults.h"

namespace lockstep::launcher {
namespace {

// Gloo's, and that of TensorPipe (torch.distributed.rpc).
constexpr std::array kInterfaces{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"};

// The list was found long enough; of no list, all devices are there.
std::string device_of(const LaunchOptions& options, int local_rank) {
  if (options.visible_devices.empty()) return std::to_string(local_rank);
  const std::string& device = options.visible_devices.at(static_cast<std::size_t>(local_rank));
  const std::size_t begin = device.find_first_not_of(' ');
  return begin == std::string::npos
             ? ""
             : device.substr(begin, device.find_last_not_of(' ') + 1 - begin);
}

// An empty one is none to Gloo, too.
bool is_told(const char* variable) {
  const char* name = std::getenv(variable);
  return name != nullptr && *name != '\0';
}

}  // namespace

// Linked programs may have their ranks in another order than their local ranks.
Place place_on_one_host(const LaunchOptions& options, const coord::action::Spawn& spawn,
                        int master_port, bool agent_store) {
  Place place;
  place.local_world_size = place.role_world_size = spawn.world_size;
  place.role_base_rank = spawn.rank.value() - spawn.local_rank.value();
  place.master_addr = options.master_addr;
  place.master_port = master_port;
  place.agent_store = agent_store;
  return place;
}

Variables worker_variables(const LaunchOptions& options, const coord::action::Spawn& spawn,
                           const Place& place, const std::string& error_file) {
  const char* async = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  const int local_rank = spawn.local_rank.value();
  Variables variables{
      {"LOCAL_RANK", options.virtual_local_rank ? "0" : std::to_string(local_rank)},
      {"RANK", std::to_string(spawn.rank.value())},
      {"WORLD_SIZE", std::to_string(spawn.world_size)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_world_size)},
      {"GROUP_RANK", std::to_string(place.group_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(place.group_world_size)},
      {"ROLE_RANK", std::to_string(place.role_base_rank + local_rank)},
      {"ROLE_WORLD_SIZE", std::to_string(place.role_world_size)},
      {"ROLE_NAME", options.role},
      {"MASTER_ADDR", place.master_addr},
      {"MASTER_PORT", std::to_string(place.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(spawn.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(spawn.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", place.agent_store ? "True" : "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", async == nullptr ? "1" : async},
  };
  for (const char* variable : kInterfaces)
    if (!place.interface.empty() && !is_told(variable))
      variables.emplace_back(variable, place.interface);
  if (const std::size_t name = place.marker.find('='); name != std::string::npos)
    variables.emplace_back(place.marker.substr(0, name), place.marker.substr(name + 1));
  std::string signals;
  for (const int number : options.signals_to_handle)
    signals += (signals.empty() ? "" : ",") + std::to_string(number);
  if (!signals.empty()) variables.emplace_back(coord::kSignalsVariable, signals);
  if (options.virtual_local_rank)
    variables.emplace_back("CUDA_VISIBLE_DEVICES", device_of(options, local_rank));
  if (!options.inject.empty()) variables.emplace_back(coord::kInjectVariable, options.inject);
  return variables;
}

std::vector<std::string> worker_variable_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : worker_variables({}, {}, {}, ""))
    if (name != "TORCH_NCCL_ASYNC_ERROR_HANDLING") names.push_back(name);
  names.emplace_back(coord::kInjectVariable);
  names.emplace_back(coord::kSignalsVariable);
  names.emplace_back(coord::kLaterMainVariable);
  names.emplace_back(coord::kPlainVariable);
  names.emplace_back(control::kKeyVariable);  // whoever has it can take part in the run
  return names;
}

std::vector<std::string> thread_variable() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return {};
  return {"OMP_NUM_THREADS=1"};
}

std::string binding_variable(const Environment& environment) {
  const auto set = [&](const char* name) {
    const std::optional<std::string> value = environment(name);
    return value && !value->empty() ? std::string(name) + "=" + *value : "";
  };
  std::string bind = set("OMP_PROC_BIND");
  std::string low = bind;
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
  if (low == "omp_proc_bind=false") return "";
  if (!bind.empty()) return bind;
  if (std::string cpus = set("GOMP_CPU_AFFINITY"); !cpus.empty()) return cpus;
  return set("OMP_PLACES");  // binds by itself
}

std::vector<std::string> linked_program_variables() {
  std::vector<std::string> variables = thread_variable();
  if (std::getenv("GLIBC_TUNABLES") == nullptr)
    variables.emplace_back("GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  return variables;
}

std::vector<std::string> to_entries(const Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace lockstep::launcher
