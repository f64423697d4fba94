// One attempt to reach the launcher at an endpoint: name, addresses, connection, key, version.
//
// A name is looked up anew by each dial. Of several addresses one family after the other is tried
// (RFC 8305 in small): the next at once where one fails, 250 ms after one that does not answer.
// Those that do not answer are tried again every 500 ms, beside what is under way.
// Where one refuses, those that do not answer are given up soon: who dials again may be heard.
//
// Ownership: destroying a Dial gives up; `loop` and `timers` must outlive it. Threads: the loop's.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "control/connection.h"
#include "control/failure.h"
#include "control/look_up.h"

namespace lockstep::control {

class Dial {
 public:
  struct Plan {
    std::string host;  // a name or a numeric address, as the user gave it
    int port = 0;
    bool on_this_machine = false;  // by the abstract socket of `port`, without a key
    Party self;
    std::shared_ptr<const TlsSettings> tls;  // none: without a key
    std::string run_id;
    std::optional<Address> from;                // this machine's end; none: as the kernel chooses
    std::chrono::milliseconds patience{5'000};  // in all
    FindAddresses find = find_addresses;
  };
  // `connection`: open, or none, and then why. Called once, from the loop; it may destroy the Dial.
  using Done = std::function<void(std::shared_ptr<Connection> connection, const Failure& failure)>;
  static std::unique_ptr<Dial> start(Loop& loop, Timers& timers, Plan plan, Done done);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

 private:
  struct Attempt {
    Address address;
    UniqueFd socket;
  };

  Dial(Loop& loop, Timers& timers, Plan plan, Done done);
  void begin();
  void resolved(const Result<std::vector<Address>>& found);
  void try_next();
  void try_again();
  int connect(const Address& address);
  void on_connected(int socket);
  void shake_hands(UniqueFd socket, std::string name);
  void failed(Failure failure, const std::string& where);
  void drop_attempts();
  void drop_attempts_to(const Address& address);
  void too_late();
  void finish(std::shared_ptr<Connection> connection, const Failure& failure);
  Failure summary() const;
  std::string name() const;

  Loop& loop_;
  Timers& timers_;
  const Plan plan_;
  Done done_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<LookUp> look_up_;
  std::deque<Address> untried_;
  std::vector<Attempt> attempts_;           // under way
  std::shared_ptr<Connection> connection_;  // under way
  std::vector<Failure> failures_;           // one of each address
  Timers::Timer deadline_, stagger_;
};

}  // namespace lockstep::control
