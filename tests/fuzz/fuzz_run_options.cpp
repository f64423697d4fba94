// Any command line and environment of `lockstep run`, a word or NAME=VALUE a line: refused as a
// wrong usage, or what others may rely on holds.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/options/endpoints.h"
#include "launcher/options/options.h"
#include "launcher/options/rendezvous.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::launcher;
using namespace std::chrono_literals;

namespace {

void check(const NodesOptions& nodes) {
  require(nodes.nnodes >= 1 && nodes.nnodes <= kMostNodes);
  if (nodes.node_rank) require(*nodes.node_rank >= 0 && *nodes.node_rank < nodes.nnodes);
  if (nodes.nnodes == 1) return;
  const bool has_port = nodes.endpoint_port > 0 && nodes.endpoint_port <= 65'535;
  require(nodes.endpoint_host.empty() || has_port);
  require(nodes.places.size() != 1 && nodes.places.size() <= kMostEndpoints);
  require(nodes.places.empty() || (!nodes.is_static && nodes.is_host != true &&
                                   nodes.places.front().host == nodes.endpoint_host));
  for (const MeetingPlace& place : nodes.places) {
    require(!place.host.empty() && place.port > 0 && place.port <= 65'535);
    require(std::ranges::count(nodes.places, place) == 1 && place.port != nodes.store_port);
  }
  require(nodes.store_port >= 0 && nodes.store_port <= 65'535);
  require(!nodes.is_static || nodes.store_port == 0);
  require(nodes.join_timeout > 0ms);
  if (nodes.limit) require(*nodes.limit >= 1s && *nodes.limit <= 24h);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words;
  std::map<std::string, std::string, std::less<>> variables;
  for (std::string& line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
    const std::size_t equal = line.find('=');
    if (line.starts_with("PET_") || line.starts_with("SLURM_"))
      variables[line.substr(0, equal)] = equal == std::string::npos ? "" : line.substr(equal + 1);
    else
      words.push_back(std::move(line));
  }
  const auto options =
      parse_run_options(words, [&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      });
  if (!options.ok()) {
    require(options.error().kind == ErrorKind::kUsage && !options.error().message.empty());
    return 0;
  }
  if (options->help) return 0;
  require(!options->program.empty() && !options->run_id.empty());
  check(options->nodes);
  const bool meets = options->nodes.nnodes == 1 || !options->nodes.endpoint_host.empty();
  require(check_endpoint(*options, words).ok() == meets);
  return 0;
}
