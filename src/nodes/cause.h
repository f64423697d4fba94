// Why an attempt has ended: the first of its nodes' failures. Nodes tell how long ago a worker
// failed; clocks of two machines are never compared. Pure.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep::nodes {

// A failure of one of its workers, or its loss. Times are the leader's.
struct NodeFailure {
  std::uint64_t at = 0;
  int node = -1;
  std::string text;
  int code = 1;             // the run's if nothing is left to try
  bool is_evident = false;  // not a mere consequence: by a signal, with an error file, a lost node
  bool final = false;       // another try would end the same way
};

class Cause {
 public:
  // The attempt ends now; what is told later may have come before.
  void open(std::uint64_t now);
  void close() { since_.reset(); }
  void clear();

  // One for each node: what is told first. Told again it would be as old by another clock's rate.
  void add(const NodeFailure& failure);

  bool is_open() const { return since_.has_value(); }
  std::uint64_t since() const { return since_.value_or(0); }
  bool is_final() const { return finals_ > 0; }
  // The oldest; of those too close to be told apart an evident one. Only among final ones if asked
  // for. Null: there is none.
  const NodeFailure* root(bool of_final) const;

 private:
  std::optional<std::uint64_t> since_;
  std::map<int, NodeFailure> failures_;
  int finals_ = 0;
};

}  // namespace lockstep::nodes
