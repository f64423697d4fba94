// Any bytes as what agents say of who leads: refused, or a message that is the same when it is
// written again; and an agent that hears it goes on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quorum/agent.h"
#include "quorum/wire.h"
#include "require.h"

using namespace lockstep::quorum;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto said = decode(bytes);
  if (!said.ok()) return 0;
  if (said->has_facts) require(encode(said->message, true) == bytes);
  const Member self{0, 1};
  std::uint64_t now = 1;
  Agent agent({}, self, now);
  agent.form({self, {1, 2}, {2, 3}}, now);
  agent.hear(said->message, now += 1'000'000);
  agent.acknowledge(agent.facts().stamp, now);
  for (int i = 0; i < 20; ++i) agent.pass(now += 500'000'000);
  agent.say({1, 2}, now);
  return 0;
}
