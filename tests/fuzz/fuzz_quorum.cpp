// Any bytes as what agents say of who leads: refused, or a message that is the same when it is
// written again; and an agent that hears it goes on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quorum/agent.h"
#include "quorum/talk.h"
#include "require.h"

using namespace lockstep::quorum;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto said = decode(bytes);
  if (!said.ok()) return 0;
  require(encode(said->message, said->facts) == bytes);
  const auto facts = decode_facts(said->facts.bytes);
  require(!facts.ok() || encode(*facts) == said->facts.bytes);
  const Member self{0, 1};
  std::uint64_t now = 1;
  Agent agent({}, self, now);
  agent.form({self, {1, 2}, {2, 3}}, now);
  Talk talk;
  talk.say(1, {});
  talk.say(1, agent.say({1, 2}, now));
  auto heard = talk.hear(1, bytes);
  if (!heard.ok() || !heard->message) {  // its facts are not read: as if it had others
    heard = Talk::Heard{.message = said->message, .answer = false};
    if (facts.ok()) heard->message->facts = *facts;
  }
  agent.hear(*heard->message, now += 1'000'000);
  agent.acknowledge(agent.facts().stamp, now);
  for (int i = 0; i < 20; ++i) agent.pass(now += 500'000'000);
  talk.say(1, agent.say({1, 2}, now));
  return 0;
}
