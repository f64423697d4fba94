#include "launcher/head_for.h"

#include <algorithm>
#include <chrono>

#include "coord/membership.h"
#include "coord/plain/one_host.h"
#include "launcher/options/signal_list.h"

namespace lockstep::launcher {
namespace {

std::uint64_t ns(std::chrono::milliseconds time) {
  return static_cast<std::uint64_t>(time.count()) * 1'000'000;
}

bool asks_for_help(const Program& program) {
  return std::any_of(program.arguments.begin(), program.arguments.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

// For programs that link Lockstep.
coord::Config config_of(const LaunchOptions& options, const Program& program, bool zygote,
                        const std::optional<Attached>& attached) {
  coord::Config config;
  config.workers = static_cast<std::uint32_t>(options.nproc_per_node);
  config.max_restarts = options.max_restarts;
  config.max_replacements = options.max_replacements;
  config.zygote = zygote;
  config.asked_for_help = asks_for_help(program);
  config.stop_signals = stop_signals(options.signals_to_handle);
  config.timing.stop_grace = ns(options.stop_grace);
  if (options.hang_timeout) config.timing.strict_hang = ns(*options.hang_timeout);
  config.timing.kill_grace = ns(options.shutdown_timeout);
  config.timing.orderly = ns(options.shutdown_timeout);
  // Without the zygote a worker loads libtorch first, on a busy machine many at once.
  if (!zygote) config.timing.hello = 60'000'000'000;
  config.attached = attached.has_value();
  if (attached) config.timing.first_table = ns(attached->wait);
  return config;
}

}  // namespace

std::unique_ptr<coord::Head> head_for(const LaunchOptions& options, const Program& program,
                                      bool zygote, const std::optional<Attached>& attached,
                                      NodesRun* nodes, HostsRun* hosts) {
  if (hosts != nullptr) return hosts->make_head(config_of(options, program, zygote, attached));
  if (program.linked)
    return std::make_unique<coord::Coordinator>(config_of(options, program, zygote, attached));
  coord::plain::HostConfig config;
  config.workers = options.nproc_per_node;
  config.asked_for_help = asks_for_help(program);
  config.stop_signals = stop_signals(options.signals_to_handle);
  config.timing.kill_grace = ns(options.shutdown_timeout);
  if (nodes != nullptr) return nodes->make_head(config);
  return std::make_unique<coord::plain::OneHost>(config, options.max_restarts);
}

}  // namespace lockstep::launcher
