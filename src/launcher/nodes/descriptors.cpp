#include "launcher/nodes/descriptors.h"

#include <cstddef>
#include <string>

#include "launcher/processes/process.h"

namespace lockstep::launcher {

// The leader has two connections of a node that comes again, for a while.
Status check_descriptors(const LaunchOptions& options, bool leads) {
  constexpr std::size_t kOwn = 32;
  const auto nodes = static_cast<std::size_t>(options.nodes.nnodes);
  const auto workers = static_cast<std::size_t>(options.nproc_per_node);
  const std::size_t needed = (leads ? 2 * nodes : 0) + 2 * workers + kOwn;
  const std::size_t there = use_all_descriptors();
  if (there >= needed) return {};
  return Error{ErrorKind::kUnavailable,
               (leads ? "the launcher that leads " + std::to_string(nodes) + " nodes needs "
                      : "the launcher of " + std::to_string(workers) + " workers needs ") +
                   std::to_string(needed) + " descriptors, and may have " + std::to_string(there) +
                   " here; raise the limit: ulimit -Hn " + std::to_string(needed)};
}

}  // namespace lockstep::launcher
