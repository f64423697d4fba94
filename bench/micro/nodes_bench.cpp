// What events cost the leader of 10 to 10,000 nodes: words, bytes of them as the control plane has
// them, CPU time (TLS and the kernel's part not included), and how long they take in virtual time.
//
//   nodes_bench [MOST]     JSON, one event a line; up to MOST nodes
//
// Every event ends when all nodes have started their workers; `rest` is 10 s in which nothing
// happens.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "simulation/nodes/cluster.h"
#include "star/messages.h"

namespace lockstep {
namespace {

std::string encoded(const star::Message& message) {
  auto frame = star::encode(message);
  if (!frame.ok()) {
    std::fprintf(stderr, "nodes_bench: %s\n", frame.error().message.c_str());
    std::exit(1);
  }
  return *std::move(frame);
}

void print(int nodes, const char* event, const simulation::Costs& costs) {
  std::printf(
      "{\"nodes\": %d, \"event\": \"%s\", \"took_s\": %.4f, \"cpu_ms\": %.4g, \"words_in\": %llu, "
      "\"words_out\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, \"visits\": %llu}\n",
      nodes, event, static_cast<double>(costs.took) * 1e-9, costs.cpu_seconds * 1e3,
      static_cast<unsigned long long>(costs.words_in),
      static_cast<unsigned long long>(costs.words_out),
      static_cast<unsigned long long>(costs.bytes_in),
      static_cast<unsigned long long>(costs.bytes_out),
      static_cast<unsigned long long>(costs.visits));
  std::fflush(stdout);
}

void measure(int nodes) {
  simulation::Cluster cluster(nodes, {[](const nodes::NodeWord& word) { return encoded(word); },
                                      [](const std::string& frame) { (void)star::decode(frame); },
                                      [](const nodes::LeaderWord& word) { return encoded(word); }});
  print(nodes, "form", cluster.form());
  print(nodes, "rest", cluster.rest(10 * simulation::kSecond));
  print(nodes, "worker", cluster.lose_worker());
  print(nodes, "node", cluster.lose_nodes(1));
  print(nodes, "100 nodes", cluster.lose_nodes(std::min(100, nodes - 1)));
  print(nodes, "leader", cluster.lose_leader());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 10'000;
  for (int nodes = 10; nodes <= most; nodes *= 10) lockstep::measure(nodes);
}
