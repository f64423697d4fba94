// This host's agent among those that decide who leads (quorum/agent.h), with what they say to each
// other as bytes (quorum/talk.h). All hosts of a run are in its first set.
//
// Threads: one at a time. Errors: hear()'s: kBadData. Times: nanoseconds of one clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "lockstep/status.h"
#include "quorum/agent.h"
#include "quorum/talk.h"

namespace lockstep::launcher {

inline std::uint64_t now() { return clock_ns(CLOCK_MONOTONIC); }  // as the head's

class QuorumTalk {
 public:
  // To another host; may not come back in here.
  using Say = std::function<void(std::size_t host, std::string frame)>;
  // `members`: by host.
  QuorumTalk(const quorum::Settings& settings, std::vector<quorum::Member> members,
             std::size_t self, Say say, std::uint64_t now);

  quorum::Agent& agent() { return agent_; }
  const quorum::Agent& agent() const { return agent_; }
  const quorum::Member& member(std::size_t host) const { return members_[host]; }
  const std::vector<quorum::Member>& members() const { return members_; }

  void open(std::size_t host, std::uint64_t now);  // there is a connection, a new one too
  void close(std::size_t host);
  // True: it is to be answered at once.
  Result<bool> hear(std::size_t host, std::string_view bytes, std::uint64_t now);
  void say(std::size_t host, std::uint64_t now);
  void beat(std::uint64_t now);  // a heartbeat, to those that this agent speaks to
  void look(std::uint64_t now);  // the same, where something is to be said at once

 private:
  // What others are to know at once.
  using Says =
      std::tuple<std::uint64_t, quorum::Role, std::optional<quorum::Member>,
                 std::optional<quorum::Member>, Stamp, std::uint64_t, Stamp, Stamp, bool, bool>;
  Says says(std::uint64_t now) const;

  const std::vector<quorum::Member> members_;
  const std::size_t self_;
  const Say say_;
  quorum::Agent agent_;
  quorum::Talk talk_;
  std::vector<bool> is_open_;  // by host
  Says said_;
};

}  // namespace lockstep::launcher
