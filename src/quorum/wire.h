// What agents say to each other (message.h) as bytes (base/wire.h).
//
//   Message's fields, in its order, but for `place`; of facts their name, and then a bool: with
//   their fields, or without
//
// Facts have the run's whole state, and change seldom. They are left out where the receiver has
// them, and then only their name is there: stamp, and id of the set in force.
//
// What is read can be worked with: a set has at most kMostMembers, each once, and an id if and only
// if it has members.
//
// Ownership: values. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "quorum/message.h"

namespace lockstep::quorum {

inline constexpr std::size_t kMostMembers = 1024;

// The same name, the same facts.
struct FactsName {
  Stamp stamp = {};
  std::uint64_t set = 0;
  friend bool operator==(const FactsName&, const FactsName&) = default;
};
FactsName name_of(const Facts& facts);

std::string encode(const Message& message, bool with_facts);

struct Said {
  FactsName name;
  Message message;  // without facts: of these the stamp alone
  bool has_facts = false;
};
Result<Said> decode(std::string_view bytes);

}  // namespace lockstep::quorum
