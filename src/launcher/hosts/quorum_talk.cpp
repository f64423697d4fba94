#include "launcher/hosts/quorum_talk.h"

#include <utility>

#include "base/errors.h"

namespace lockstep::launcher {

QuorumTalk::QuorumTalk(const quorum::Settings& settings, std::vector<quorum::Member> members,
                       std::size_t self, Say say, std::uint64_t now)
    : members_(std::move(members)),
      self_(self),
      say_(std::move(say)),
      agent_(settings, members_[self], now),
      others_(members_.size()),
      said_(says()) {}

QuorumTalk::Says QuorumTalk::says() const {
  return {agent_.term(),
          agent_.role(),
          agent_.vote(),
          agent_.leader(),
          quorum::name_of(agent_.facts()),
          agent_.in_force(),
          agent_.acknowledged(),
          agent_.ending().has_value()};
}

void QuorumTalk::open(std::size_t host, std::uint64_t now) {
  others_[host] = {.is_open = true, .said = {}, .has = {}};
  say(host, now);
}

void QuorumTalk::close(std::size_t host) { others_[host] = {}; }

Result<bool> QuorumTalk::hear(std::size_t host, std::string_view bytes, std::uint64_t now) {
  LOCKSTEP_ASSIGN(quorum::Said said, quorum::decode(bytes));
  if (said.message.from != members_[host]) return bad_data("an agent says that it is another one");
  others_[host].has = said.name;
  // Where it names others, this agent has newer ones.
  if (!said.has_facts && said.name == quorum::name_of(agent_.facts()))
    said.message.facts = agent_.shared_facts();
  said.message.place = host + 1;
  return agent_.hear(said.message, now);
}

void QuorumTalk::say(std::size_t host, std::uint64_t now) {
  Other& other = others_[host];
  if (!other.is_open) return;
  const quorum::FactsName name = quorum::name_of(agent_.facts());
  const bool has = other.has == name || other.said == name;
  other.said = name;
  say_(host, quorum::encode(agent_.say(members_[host], now), !has));
}

void QuorumTalk::beat(std::uint64_t now) {
  said_ = says();
  for (std::size_t host = 0; host < members_.size(); ++host)
    if (host != self_ && agent_.speaks_to(members_[host], now)) say(host, now);
}

void QuorumTalk::look(std::uint64_t now) {
  if (said_ != says()) beat(now);
}

}  // namespace lockstep::launcher
