// What the launchers of a run on several machines say to each other: one message per frame of
// control/connection.h. The room nodes has the rules.
//
//   u16 type | fields in the order of the struct (base/wire.h)        little-endian
//
// Two versions never read each other's messages: control/preface.h refuses them before. Times are
// durations, or of the sender's own clock, which only the sender reads again. Texts may hold any
// bytes: print them by printable(). Ownership: values. Errors: kBadData for what cannot be decoded,
// kUsage for what is too long for a frame. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/status.h"
#include "nodes/view.h"
#include "nodes/words.h"

namespace lockstep::star {

namespace message {

// Agent -> leader: the first word on every connection; what must agree.
struct Hello {
  std::string run_id;
  std::string host;  // its name, for messages alone
  std::int32_t nodes = 0;
  std::int32_t max_restarts = 0;
  bool rank_given = false;           // --node-rank
  std::uint64_t limit_ns = 0;        // L, where it was given; 0: as the leader has it
  std::vector<std::string> program;  // name and arguments
  // This end's address on the connection: behind a NAT the other end sees another.
  std::string local_address;
  std::string version;    // of Lockstep, and of what its programs and links say
  bool linked = false;    // the program links Lockstep
  std::string tie_break;  // --tie-break, where it was given
  std::string endpoints;  // a list of them, where it was given
  bool looks = false;     // it only looks whether somebody leads here: Leads or Refused follow
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Leader -> agent: the answer to Hello. Words follow, both ways.
struct Welcome {
  std::string host;
  std::string address;  // the agent's, numeric, as others reach it
  friend bool operator==(const Welcome&, const Welcome&) = default;
};
// Leader -> agent that only looks for one (Hello::looks): nodes::Lead without its place.
struct Leads {
  nodes::Attempt attempt = 0;
  bool active = false;
  friend bool operator==(const Leads&, const Leads&) = default;
};
enum class Reason : std::uint8_t {
  kOtherRun,     // another --rdzv-id
  kOtherOption,  // `option` has another value
};
struct Refused {
  Reason reason = Reason::kOtherRun;
  std::string option;  // its name
  std::string text;    // the sentence for the user, with both values and hosts
  friend bool operator==(const Refused&, const Refused&) = default;
};

// The worker whose failure has ended the run (nodes::Final::node): its node -> leader, before the
// word that answers Final; leader -> all others, before the word that lets them go. For the report.
struct Failed {
  std::int32_t rank = 0, local_rank = 0;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // negative: the signal that ended it
  std::int64_t time_ms = 0;    // since 1970 by its machine's clock, to be printed alone
  std::string host;            // its machine's name
  std::string error_file;      // its path there; empty: none
  bool is_file = false;        // `text` is the error file's, else what is known
  std::string text;
  friend bool operator==(const Failed&, const Failed&) = default;
};

// Whoever has the key -> agent, in place of Hello: how is the run? Answer comes; then it may ask
// again, for the nodes that the first answer had no room for.
struct StatusQuery {
  std::int32_t from = 0;  // the first node rank that is asked about
  friend bool operator==(const StatusQuery&, const StatusQuery&) = default;
};
// The same: the run is to end, as by a SIGTERM to the agent. Answer comes, as of before.
struct StopOrder {
  std::string host;  // the name of the machine of who asks, to be said
  friend bool operator==(const StopOrder&, const StopOrder&) = default;
};
struct Answer {
  std::string run_id;
  std::string host;      // the name of the agent's machine
  std::string endpoint;  // as its user gave it, with the port
  std::string trouble;   // why it does not reach the leader; "": it does
  bool stops = false;    // it was not about to end before StopOrder came
  nodes::View view;
};

// Of a run of a linked program on several hosts. Agent -> the one at the endpoint, and, once all
// have come, another that it dials; behind Hello: who it is.
struct Claim {
  std::optional<std::int32_t> rank;  // --node-rank
  std::uint64_t incarnation = 0;
  std::uint32_t workers = 1;
  std::uint16_t link_port = 0;  // where its link listens
  // Where it answers other agents; within one machine 65,536 and then link_port: no port, but the
  // name of an abstract socket.
  std::uint32_t agent_port = 0;
  std::uint64_t run = 0;  // Formed's, that it takes part in; 0: in none yet
  friend bool operator==(const Claim&, const Claim&) = default;
};
// The agent at the endpoint -> each other, once all have come, and again on each connection: who
// takes part.
struct Formed {
  struct Host {
    std::string address;  // numeric, as it is seen at the endpoint; "": that one's own
    std::uint16_t link_port = 0;
    std::uint32_t agent_port = 0;
    std::uint64_t incarnation = 0;
    std::uint32_t workers = 1;
    std::string cookie;  // of its pair with the agent that this is for: links::Cookie's bytes
    friend bool operator==(const Host&, const Host&) = default;
  };
  std::int32_t self = 0;       // the agent's index
  std::uint64_t run = 0;       // drawn at random
  std::uint64_t limit_ns = 0;  // L
  std::vector<Host> hosts;     // by index
  friend bool operator==(const Formed&, const Formed&) = default;
};
// Both ways, behind Formed: a frame of link/agent_talk.h.
struct Talk {
  std::string frame;
  friend bool operator==(const Talk&, const Talk&) = default;
};
inline constexpr std::size_t kMostTalkBytes = (std::size_t{1} << 20) - 6;  // of `frame`

}  // namespace message

// In the order of their types, from 1.
using Message =
    std::variant<message::Hello, message::Welcome, message::Refused, nodes::NodeWord,
                 nodes::LeaderWord, message::Failed, message::StatusQuery, message::StopOrder,
                 message::Answer, message::Claim, message::Formed, message::Talk, message::Leads>;

// Whether its sender is no node: StatusQuery, StopOrder.
inline bool is_question(const Message& message) {
  return std::holds_alternative<message::StatusQuery>(message) ||
         std::holds_alternative<message::StopOrder>(message);
}

Result<std::string> encode(const Message& message);
Result<Message> decode(std::string_view frame);

}  // namespace lockstep::star
