// What agents of one run of plain programs on several nodes tell each other. A word is its sender's
// whole state, sent at every heartbeat and at once when it has changed; so a lost one costs
// nothing, and a connection that is made again needs no history. docs/decisions/0023 has the rules.
//
// Times are nanoseconds of the clock of whoever wrote them; nobody compares two machines' clocks: a
// stamp comes back to its writer as an echo. It must count what its machine was suspended
// (CLOCK_BOOTTIME), as the others have gone on; one that was paused from outside, with all of its
// clocks, finds out by the first word that comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::nodes {

using Attempt = std::uint64_t;      // from 1; 0: none. Restarts used are attempt - 1
using Incarnation = std::uint64_t;  // drawn by each agent at its start
using Stamp = std::uint64_t;        // 0: none

// Who an agent is.
struct Row {
  std::optional<int> rank;  // --node-rank, or what a leader has told it
  std::string address;      // numeric
  // The boot and network that it runs in: what lives there can be found out there.
  std::string machine;
  Incarnation incarnation = 0;
  std::uint32_t workers = 1;
  std::string role;       // of its workers (--role)
  std::string host = {};  // the machine's name, for messages
};

struct Failure {
  Attempt attempt = 0;
  std::uint64_t age_ns = 0;  // when the word was sent
  std::string text;
  int code = 1;        // the run's if nothing is left to try
  bool final = false;  // another try would end the same way
  int rank = -1;       // of the worker; -1: of none
  bool by_signal = false, has_error_file = false;
};

// Where an attempt's workers meet. The node of rank 0 makes one, new and empty, for each attempt;
// no workers start before the leader has told it to their node.
struct Store {
  Attempt attempt = 0;
  std::string address;  // numeric; "" from a node: where the leader reaches it
  int port = 0;
  bool served = false;  // by that node's agent; else the port is kept for the workers
};

struct Final {
  int code = 0;
  std::string text;
  int node = -1;  // the rank of the one that it came from; -1: of none
};

// A node to its leader.
struct NodeWord {
  Row row;
  std::uint64_t run = 0;  // drawn by the first leader; 0: not told yet
  Attempt told = 0;       // the highest that it has heard of
  Attempt ran = 0;        // the last that it has started workers of
  Attempt alive = 0;      // of which workers live; 0: none
  Attempt ended = 0;      // all of whose workers here ended with 0
  // No worker that an earlier agent of this run has started on `row.machine` lives.
  bool has_lock = false;
  // The machine of all leaders before this one, from that of `ran` on; "": none, or "several".
  std::string led_from;
  std::optional<Store> store;      // of rank 0's node
  std::optional<Failure> failure;  // of `ran`
  int signal = 0;                  // that its launcher has had; 0: none
  std::string signal_by;           // who asked for it by other means; "": it is a signal
  std::string stop_why;            // a leader before this one has told the signal; "": it is ours
  bool kill_all = false;           // it has had a second one: all are to be killed
  std::optional<Final> final;
  Incarnation leader = 0;  // whose word `echo` is
  Stamp sent = 0, echo = 0;
};

// Of one that has a signal, for people. `who`: who has sent the word.
std::string stop_text(const std::string& who, const NodeWord& word);

// The leader to one node.
struct LeaderWord {
  Incarnation incarnation = 0;
  std::string machine;
  std::uint64_t run = 0;
  int rank = -1;         // of the node it is for; -1: none yet
  int leader_rank = -1;  // of the leader's own node
  std::string refusal;   // "": none. Else it ends, with refusal_code
  int refusal_code = 0;
  Attempt attempt = 0;
  bool runs = false;  // the attempt is to be run; else nothing of it or before it may live
  std::uint32_t base_rank = 0, world = 0;
  std::uint32_t role_base = 0, role_world = 0;  // of all workers that have this node's role
  std::optional<Store> store;                   // of the attempt, once it is there
  std::string waits_for;                        // nodes that are missing for a while; "": none
  // Why the last attempt was ended; "": none was, or it is not settled yet what came first.
  std::string why;
  int signal = 0;  // workers are to end by it; 0: no
  std::optional<Final> final;
  bool over = false;        // all have it and no workers left, or are gone
  std::uint64_t limit = 0;  // L
  std::uint64_t age = 0;    // of the newest word of this leader that all nodes have answered
  Stamp sent = 0, echo = 0;
};

}  // namespace lockstep::nodes
