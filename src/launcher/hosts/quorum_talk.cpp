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
      is_open_(members_.size()),
      said_(says(now)) {}

QuorumTalk::Says QuorumTalk::says(std::uint64_t now) const {
  return {agent_.term(),       agent_.role(),         agent_.vote(),
          agent_.leader(),     agent_.facts().stamp,  agent_.facts().set.id,
          agent_.in_force(),   agent_.acknowledged(), agent_.ending().has_value(),
          agent_.has_turn(now)};
}

void QuorumTalk::open(std::size_t host, std::uint64_t now) {
  is_open_[host] = true;
  talk_.open(host);
  say(host, now);
}

void QuorumTalk::close(std::size_t host) { is_open_[host] = false; }

Result<bool> QuorumTalk::hear(std::size_t host, std::string_view bytes, std::uint64_t now) {
  LOCKSTEP_ASSIGN(quorum::Talk::Heard heard, talk_.hear(host, bytes));
  if (!heard.message) return true;
  if (heard.message->from != members_[host])
    return bad_data("an agent says that it is another one");
  heard.message->place = host + 1;
  return agent_.hear(*heard.message, now) || heard.answer;
}

void QuorumTalk::say(std::size_t host, std::uint64_t now) {
  if (is_open_[host]) say_(host, talk_.say(host, agent_.say(members_[host], now)));
}

void QuorumTalk::beat(std::uint64_t now) {
  said_ = says(now);
  for (std::size_t host = 0; host < members_.size(); ++host)
    if (host != self_ && agent_.speaks_to(members_[host], now)) say(host, now);
}

void QuorumTalk::look(std::uint64_t now) {
  if (said_ != says(now)) beat(now);
}

}  // namespace lockstep::launcher
