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

#include <cstdint>
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
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Leader -> agent: the answer to Hello. Words follow, both ways.
struct Welcome {
  std::string host;
  std::string address;  // the agent's, numeric, as others reach it
  friend bool operator==(const Welcome&, const Welcome&) = default;
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

}  // namespace message

// In the order of their types, from 1.
using Message = std::variant<message::Hello, message::Welcome, message::Refused, nodes::NodeWord,
                             nodes::LeaderWord, message::Failed, message::StatusQuery,
                             message::StopOrder, message::Answer>;

// Whether its sender is no node: StatusQuery, StopOrder.
inline bool is_question(const Message& message) {
  return std::holds_alternative<message::StatusQuery>(message) ||
         std::holds_alternative<message::StopOrder>(message);
}

Result<std::string> encode(const Message& message);
Result<Message> decode(std::string_view frame);

}  // namespace lockstep::star
