// What one schedule of agents that decide together is made of: the run, the faults that may come to
// it, and mistakes put in on purpose.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::simulation {

enum class Blunder {
  kNone,
  kOriginal,     // quorums of the first set, not of that in force
  kOldAnswers,   // acknowledgements of the change before count: two are under way
  kTwice,        // two votes in a term
  kOwnFacts,     // a winner goes by its own facts
  kAnyHalf,      // exactly half of a set, without its first
  kDrops,        // a change that was found at the election is dropped
  kComerAlone,   // with a comer, the changed set alone elects
  kNewAlone,     // the changed set alone elects
  kNewAnswers,   // a change is in force when the changed set has it
  kSomeForm,     // the first set is in force when a quorum has it
  kTwoMakers,    // whoever has one maker's first set takes another's
  kHostTwice,    // in one set
  kNotSticky,    // votes while a leader is heard
  kArrival,      // the fence counts from arrival, not from the echo
  kNoAge,        // heartbeats carry no quorum age
  kLeadsOn,      // without a quorum
  kWorkersStay,  // of a leader without a quorum
  kNoGrace,      // a group starts at once; clocks differ
  kEarlyFinal,   // whoever has heard of a final ends with it, also if it is not in force
  kFileBySeq,    // one lock file for each stamp, not for each set
  kUnread,       // a message is heard without its facts, where they cannot be read
  kOwnWrite,     // what a leader writes is in force at once
};

enum class Run { kLinked, kPlain };

struct Weather {
  Run run = Run::kLinked;
  std::size_t hosts = 3;
  std::size_t comers = 0;  // hosts more, that come later
  bool by_file = false;
  bool drift = true;   // clocks, by up to 1 in 8
  bool slow = false;   // links take seconds to close
  bool twice = false;  // a second agent claims the place of one that lives
  int crashes = 1, returns = 1, pauses = 1, cuts = 4, suspicions = 1, ends = 1;
  bool halves = false;         // cuts are between halves
  bool aimed = false;          // cuts come while changes are under way, too
  bool late = true;            // some messages, by up to two seconds
  double lost = 0;             // so many messages, of 1
  std::uint64_t seconds = 25;  // of faults
  Blunder blunder = Blunder::kNone;
};
Weather draw_weather(std::uint64_t seed);

struct Course {
  std::string violation;  // empty: all invariants held
  std::string journal;    // of a violation
  std::map<std::string, std::uint64_t> seen;
};
Course run_agents(std::uint64_t seed, const Weather& weather);

}  // namespace lockstep::simulation
