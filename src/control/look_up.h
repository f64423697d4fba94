// From a host's name to its addresses, off the loop's thread: getaddrinfo(3) waits as long as it
// likes.
//
// Ownership: `loop` must outlive a LookUp; destroying one gives up, its thread ends by itself
// later. Threads: the loop's; `find` is called on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/address.h"
#include "lockstep/status.h"

namespace lockstep::control {

// Blocks. Never an empty list. kUnavailable: the name leads to no address.
using FindAddresses =
    std::function<Result<std::vector<Address>>(const std::string& host, int port)>;
// The system's: all records of the name, IPv4 and IPv6, in the order of RFC 6724.
Result<std::vector<Address>> find_addresses(const std::string& host, int port);

// The same with a deadline, and no reason: empty if there are none, or none were found in time.
std::vector<Address> addresses_by(Deadline deadline, const std::string& host);

// Which addresses of this machine `host` stands for: a name or a numeric address; "0.0.0.0" and
// "::" stand for the loopback, as they do for who connects to them. Numeric, each once, in the
// resolver's order. Empty: they are other machines', or none were found in time. Blocks until the
// deadline.
std::vector<std::string> own_addresses(const std::string& host, Deadline deadline);

class LookUp {
 public:
  using Done = std::function<void(const Result<std::vector<Address>>&)>;
  // Calls `done` once, from the loop. Of numeric addresses no thread is needed. kUnavailable: as
  // many names as may be looked up at a time (kMostLookUps) are not answered yet.
  static constexpr int kMostLookUps = 16;
  static Result<std::unique_ptr<LookUp>> start(Loop& loop, const std::string& host, int port,
                                               FindAddresses find, Done done);
  ~LookUp();
  LookUp(const LookUp&) = delete;
  LookUp& operator=(const LookUp&) = delete;

 private:
  struct Answer;
  LookUp(Loop& loop, std::shared_ptr<Answer> answer) : loop_(loop), answer_(std::move(answer)) {}
  Loop& loop_;
  std::shared_ptr<Answer> answer_;
};

}  // namespace lockstep::control
