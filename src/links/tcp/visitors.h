// Who has come to the port and has not said yet who it is. There are never more than most_waiting
// of them, or a quarter of the process's descriptors: for one more the oldest of the address that
// has most of them goes. Each has a hello's bytes of memory, and `patience` until it is let in.
//
// Ownership: `loop` and `timers` must outlive it. Threads: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/crowd.h"
#include "base/door.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/timers.h"
#include "links/links.h"
#include "links/tcp/hello.h"
#include "lockstep/status.h"

namespace lockstep::links {

class Visitors {
 public:
  struct Answer {
    std::string bytes, proof;
  };
  struct Events {
    // What whoever says that it is so is told, and what it has then to prove. None: it is let go.
    // `from`: its address.
    std::function<std::optional<Answer>(const Hello& hello, const std::string& from)> said;
    // It has proved it, and large packets pass both ways; nothing behind that has been read.
    std::function<void(UniqueFd socket, const Hello& hello)> let_in;
    std::function<void(const std::string& from, const std::string& why)> turned_away;
  };
  static Result<std::unique_ptr<Visitors>> open(Loop& loop, control::Timers& timers,
                                                UniqueFd listener, const Limits& limits,
                                                Events events);
  ~Visitors();
  Visitors(const Visitors&) = delete;
  Visitors& operator=(const Visitors&) = delete;

  // Now and then: after a time without a descriptor for another.
  void look() { door_.look(); }

 private:
  // What it is to say next; of a load nothing is kept.
  enum class Next { kHello, kProof, kLoad, kLastByte };
  struct Visitor {
    UniqueFd socket;
    std::string from, bytes;
    control::Timers::Timer limit;
    Next next = Next::kHello;
    std::size_t left = kHelloBytes;   // of that
    std::optional<Hello> hello = {};  // once it has been answered
    std::string proof = {};           // that is wanted then
  };

  Visitors(Loop& loop, control::Timers& timers, UniqueFd listener, const Limits& limits,
           Events events);
  void greet(UniqueFd socket);
  void hear(std::uint64_t id);
  void go_on(std::uint64_t id);
  void answer(std::uint64_t id);
  void answer_load(std::uint64_t id);
  // "it had said who it is": what it closed the connection before, or took too long for.
  std::string what_lacks(std::uint64_t id) const;
  UniqueFd take(std::uint64_t id);
  void turn_away(std::uint64_t id, const std::string& why);

  Loop& loop_;
  control::Timers& timers_;
  UniqueFd listener_;
  Limits limits_;
  const Events events_;
  Door door_;
  std::map<std::uint64_t, Visitor> visitors_;  // by their coming
  Crowd crowd_;                                // the same
  std::uint64_t visits_ = 0;
};

}  // namespace lockstep::links
