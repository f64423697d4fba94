// What the keepers of several hosts say to each other (keeper_messages.h) as bytes (base/wire.h).
//
//   a host's word   u8 type of the report | its fields | the view | whom it cannot reach
//   the run's       the pulses
//   its state       RunState's fields
//
// What is read can be worked with: numbers are in their ranges, lists in their order, tables such
// that ownership can be computed from them. Every word fits into a frame of control/connection.h:
// texts are cut at kMostWords, those of a view's workers at kMostFailure. They may hold any bytes:
// print them by printable().
//
// Ownership: values. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "coord/keeper_messages.h"
#include "coord/run_state.h"
#include "lockstep/status.h"

namespace lockstep::coord {

inline constexpr std::size_t kMaxHosts = kMaxMembers;  // of a run
inline constexpr std::size_t kMostWords = 16'384, kMostFailure = 2'048;
inline constexpr std::size_t kMostWordBytes = std::size_t{1} << 20;

// A host to the run: a report that is numbered by its view, or, as report::Seen, the view alone.
struct HostWord {
  HostView view;
  Report report = report::Seen{};
  std::vector<HostIndex> unreached = {};  // its link has no stream with these, and should have
};
// Of a host what changes all the time, and nothing follows from.
struct Pulse {
  HostIndex host = 0;
  bool goes_on = false;  // as HostFacts has them
  Waits waits = {};
  friend bool operator==(const Pulse&, const Pulse&) = default;
};
// The run to a host.
struct RunWord {
  // Of few hosts (run_lead.h: pulses_of()), by host; of the others: nothing.
  std::vector<Pulse> pulses = {};
};

std::string encode(const HostWord& word);
Result<HostWord> decode_host_word(std::string_view bytes);
std::string encode(const RunWord& word);
Result<RunWord> decode_run_word(std::string_view bytes);
std::string encode(const RunState& state);
Result<RunState> decode_run_state(std::string_view bytes);
std::string encode(const Order& order);

}  // namespace lockstep::coord
