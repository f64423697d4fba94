// Why there is no connection, or no longer one.
//
// Each outcome stands for one cause that a user can mend; the text says it, with the other side's
// name. Threads: values.
#pragma once

#include <string>

namespace lockstep::control {

enum class Outcome {
  // A dial that nobody has answered.
  kNoSuchName,   // the name leads to no address, or its look-up does not answer in time
  kRefused,      // the machine answers, and nobody listens on the port
  kUnreachable,  // no route, or a router or firewall says no; of an open one, too
  kDropped,      // no answer at all within the time
  // Who answers, or comes, is not one of us.
  kNotLockstep,   // another protocol
  kWrongKey,      // Lockstep, with another key
  kKeyMissing,    // one side has a key, the other has none
  kOtherVersion,  // Lockstep, of another version
  kItself,        // this very process
  kOtherUser,     // on this machine's own socket: of another user
  kTooLate,       // connected, but said nothing (more) within the time
  kTooMany,       // made room for others: too many that have not said who they are
  // The end of an open connection.
  kClosed,   // the other side has said goodbye
  kGone,     // its process ended, or closed, without a word
  kReset,    // broken off: its machine or something on the way reset it
  kBroken,   // it sent what no frame can be
  kOverrun,  // it does not read: too much waits for it
};

const char* to_string(Outcome outcome);
// Who is there is a launcher, and none that this one could have a run with, wait as it may.
bool is_other_launcher(Outcome outcome);

struct Failure {
  Outcome outcome = Outcome::kGone;
  std::string text;
  bool by_this_machine = false;  // kRefused: the name leads here, and nobody listens here
  // Numeric. Of one who comes: its address, or "this machine". Of a dial: who has refused it.
  std::string from = {};
};

}  // namespace lockstep::control
