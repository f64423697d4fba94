// Where launchers come in: a listening socket, and those who have not said yet who they are.
//
// By the first byte: 0x16 begins TLS, "LOCKSTEP" a preface without a key, 0x00 is a client of
// PyTorch's TCPStore, which is handed on; what else comes is told what this port is. Whoever has
// not said its first word (key, version, one frame) within `patience` is cut off. There are never
// more than `most_waiting` of them, or a quarter of the process's descriptors: for one more the
// oldest of the address that has most of them goes. A first frame has kMostFirstBytes at most.
//
// Ownership: the Listener owns its socket; `loop` and `timers` must outlive it. Events come from
// the loop. Threads: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/crowd.h"
#include "base/door.h"
#include "control/connection.h"
#include "control/failure.h"

namespace lockstep::control {

inline constexpr std::size_t kMostFirstBytes = 64 * 1024;

class Listener {
 public:
  struct Plan {
    Party self;
    std::shared_ptr<const TlsSettings> tls;  // none: without a key
    bool on_this_machine = false;            // listen_on_this_machine()'s: of this user alone
    std::chrono::milliseconds patience{5'000};
    std::size_t most_waiting = 256;
  };
  struct Events {
    // Who has the key and the version, with its first frame: hear() it, or close() it.
    std::function<void(std::shared_ptr<Connection>, std::string_view first)> come;
    // Nothing has been read of it yet. None: such clients are turned away.
    std::function<void(UniqueFd)> store;
    // Who was not let in; for a line in the log, which the caller limits.
    std::function<void(const Failure&)> turned_away = [](const Failure&) {};
  };
  static Result<std::unique_ptr<Listener>> open(Loop& loop, Timers& timers, UniqueFd socket,
                                                Plan plan, Events events);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // After a time without a descriptor for another; now and then.
  void look() { door_.look(); }
  // Closes the store's clients that have come and have not been handed on: for a store that begins
  // anew they are of before.
  void drop_store_clients();
  std::size_t waiting() const { return visitors_.size(); }
  int port() const;

 private:
  struct Visitor {
    std::string host;  // numeric; "this machine"
    std::string name;  // with its port
    UniqueFd socket;   // until its first byte has come
    std::shared_ptr<Connection> connection;
    Timers::Timer limit;
  };

  Listener(Loop& loop, Timers& timers, UniqueFd socket, Plan plan, Events events);
  void greet(UniqueFd socket);
  void make_room();
  void sniff(std::uint64_t id);
  void admit(std::uint64_t id, UniqueFd socket);
  void refuse(std::uint64_t id, UniqueFd socket, std::string answer, const Failure& failure);
  void remove(std::uint64_t id, Failure failure);

  Loop& loop_;
  Timers& timers_;
  UniqueFd socket_;
  const Plan plan_;
  const Events events_;
  Door door_;
  std::map<std::uint64_t, Visitor> visitors_;  // by their coming
  Crowd crowd_;                                // the same
  bool drops_store_clients_ = false;
  std::uint64_t visits_ = 0;
};

}  // namespace lockstep::control
