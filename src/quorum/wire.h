// What agents say to each other (message.h) as bytes (base/wire.h).
//
//   Message's fields, in its order, but for `place` and `facts` | Carried's fields
//
// What is read can be worked with: a set has at most kMostMembers, each once, and an id if and only
// if it has members.
//
// Ownership: values; a Carried's bytes are its maker's. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "quorum/message.h"

namespace lockstep::quorum {

inline constexpr std::size_t kMostMembers = 1024;

// The same name, the same facts: the digest is of all their bytes.
struct FactsName {
  Stamp stamp = {};
  std::uint64_t digest = 0;
  friend auto operator<=>(const FactsName&, const FactsName&) = default;
};

// What a message carries of its facts.
struct Carried {
  enum As : std::uint8_t { kName, kWhole, kDifference };
  FactsName name = {};  // of the facts
  As as = kName;
  FactsName base = {};          // of a difference
  std::string_view bytes = {};  // the facts'; the difference to the base's (base/delta.h)
  bool unread = false;          // the sender could not read what the receiver has said
};

// The same facts are the same bytes.
std::string encode(const Facts& facts);
FactsName name_of(const Stamp& stamp, std::string_view bytes);  // of facts that are these bytes
Result<Facts> decode_facts(std::string_view bytes);

std::string encode(const Message& message, const Carried& facts);
struct Said {
  Message message;  // without facts
  Carried facts;    // its bytes are of those that were read
};
Result<Said> decode(std::string_view bytes);

}  // namespace lockstep::quorum
