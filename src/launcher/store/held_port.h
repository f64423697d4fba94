// A TCP port kept for the workers: bound, but not listening. What listens on it is theirs.
//
// Bound with SO_REUSEADDR, which PyTorch's TCPStore sets too: Linux then lets one more socket bind
// and listen, while no other process is given the port by accident.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// What to do where a port that was asked for is taken.
extern const char* const kOtherPort;

class HeldPort {
 public:
  // 0: a free one. Errors: kUnavailable with the port's number, and who has it.
  static Result<HeldPort> hold(int port);
  int number() const { return number_; }

 private:
  HeldPort(UniqueFd socket, int number) : socket_(std::move(socket)), number_(number) {}
  UniqueFd socket_;
  int number_;
};

}  // namespace lockstep::launcher
