// What agents say to each other (message.h) as bytes (wire.h), where facts are long and change
// little. Each message names the facts that its sender has. It carries them where the receiver has
// named others on this connection, once, as a difference to those, which the receiver has. Where
// that is not possible whoever leads says them whole, and others as soon as they are asked.
//
// A message whose facts cannot be read, as they are not there, or the base of their difference is
// not there any more, or what came is damaged, is not heard at all: else a vote would count without
// its voter's newer facts (docs/design/leader.md, rule 5). Whoever said it is told so at once, with
// the name of what the other has, and says its facts as a difference to that; whole, if a
// difference was what could not be read.
//
// Threads: one at a time. Errors: hear()'s: kBadData. Messages may be lost, late and doubled.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "quorum/facts_book.h"
#include "quorum/message.h"
#include "quorum/wire.h"

namespace lockstep::quorum {

class Talk {
 public:
  Talk() { book_.add(SharedFacts()); }  // with which all begin

  // Others by any number. A connection is made, or made again: nothing of one before counts.
  void open(std::size_t other) { others_[other] = {}; }

  std::string say(std::size_t to, const Message& message);
  struct Heard {
    std::optional<Message> message;  // as it was said; none: its facts could not be read
    bool answer = false;             // at once: the two do not understand each other
  };
  Result<Heard> hear(std::size_t from, std::string_view bytes);

 private:
  struct Other {
    std::optional<FactsName> said, has;  // to it; as it has named them last
    Carried::As as = Carried::kName;     // how they were said last
    bool asked = false, whole = false;   // they are to be said; and whole
    bool unread = false;                 // it is to be told so
  };
  Result<std::optional<SharedFacts>> read(const Carried& carried) const;

  FactsBook book_;
  std::map<std::size_t, Other> others_;
};

}  // namespace lockstep::quorum
