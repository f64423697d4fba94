#include "coord/run_hosts.h"

namespace lockstep::coord {

RunFacts first_facts(const std::vector<std::uint32_t>& workers) {
  RunFacts facts;
  for (const std::uint32_t asked : workers) {
    HostFacts& host = facts.hosts.emplace_back();
    if (workers.size() > 1) host.stay = {static_cast<std::uint16_t>(facts.hosts.size() - 1), 1};
    host.asked = host.wanted = host.target = asked;
  }
  return facts;
}

RunState first_state(const std::vector<std::uint32_t>& workers, std::uint64_t now) {
  RunState state{.facts = first_facts(workers), .now = now};
  state.hosts.resize(workers.size());
  state.began_at = now;
  return state;
}

std::vector<std::uint32_t> shares_of(std::uint32_t workers,
                                     const std::vector<std::uint32_t>& asked) {
  std::vector<std::uint32_t> shares(asked.size(), 1);
  for (std::size_t given = asked.size(); given < workers; ++given) {
    std::size_t next = 0;
    for (std::size_t h = 1; h < asked.size(); ++h)
      if (std::uint64_t{shares[h]} * asked[next] < std::uint64_t{shares[next]} * asked[h]) next = h;
    ++shares[next];
  }
  return shares;
}

}  // namespace lockstep::coord
