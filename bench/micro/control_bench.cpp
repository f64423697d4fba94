// What events cost the control plane of a linked program's run on 10 to 1,000 hosts: words and
// bytes of all, of one host and of the leader, CPU time (TLS, the kernel's part and links not
// included), and how long they take in virtual time.
//
//   control_bench [HOSTS...]     JSON, one event a line; 10, 100 and 1000 hosts
//
// Every event ends when all that live have applied the next transaction; `rest` is 10 s of
// heartbeats and of steps of 0.4 s.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "simulation/control/cluster.h"

namespace lockstep {
namespace {

void print(std::size_t hosts, const char* event, const simulation::ControlCosts& costs) {
  std::printf(
      "{\"hosts\": %zu, \"event\": \"%s\", \"took_s\": %.4f, \"words\": %llu, \"bytes\": %llu, "
      "\"states\": %llu, \"wholes\": %llu, \"state_bytes\": %llu, \"leader_words\": %llu, "
      "\"leader_bytes\": %llu, "
      "\"host_words\": %llu, \"host_bytes\": %llu, "
      "\"leader_allocated\": %llu, \"leader_cpu_ms\": %.4g, \"host_cpu_ms\": %.4g}\n",
      hosts, event, static_cast<double>(costs.took) * 1e-9,
      static_cast<unsigned long long>(costs.words), static_cast<unsigned long long>(costs.bytes),
      static_cast<unsigned long long>(costs.states), static_cast<unsigned long long>(costs.wholes),
      static_cast<unsigned long long>(costs.state_bytes),
      static_cast<unsigned long long>(costs.leader_words),
      static_cast<unsigned long long>(costs.leader_bytes),
      static_cast<unsigned long long>(costs.most_words),
      static_cast<unsigned long long>(costs.most_bytes),
      static_cast<unsigned long long>(costs.leader_allocated), costs.leader_cpu * 1e3,
      costs.host_cpu * 1e3);
  std::fflush(stdout);
}

void measure(std::size_t hosts) {
  simulation::ControlCluster cluster(hosts);
  print(hosts, "form", cluster.form());
  print(hosts, "rest", cluster.rest(10 * simulation::kSecond));
  print(hosts, "host", cluster.lose(1));
  print(hosts, "leader", cluster.lose_leader());
  if (hosts > 250) print(hosts, "100 hosts", cluster.lose(100));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) lockstep::measure(std::strtoul(argv[i], nullptr, 10));
    if (argc == 1)
      for (const std::size_t hosts : {10U, 100U, 1000U}) lockstep::measure(hosts);
  } catch (const lockstep::simulation::Violation& broken) {
    std::fprintf(stderr, "control_bench: %s\n", broken.what());
    return 1;
  }
}
