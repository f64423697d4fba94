// Carries bytes between two connected sockets, for tests: in it a connection can stall, or break
// after some byte.
//
// Ownership: `loop` must outlive it. Threads: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"

namespace lockstep::links {

class Relay {
 public:
  // Neither may block.
  Relay(Loop& loop, UniqueFd one, UniqueFd other);
  ~Relay() { close(); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Nothing crosses, and neither end learns of it, nor of the other's end.
  void stall(bool stalls);
  // When so many more bytes have crossed, both ways together, it stalls, or both ends are closed.
  void stall_after(std::size_t bytes) { left_ = bytes, closes_ = false; }
  void close_after(std::size_t bytes) { left_ = bytes, closes_ = true; }
  void close();
  bool is_over() const { return !ends_[0].socket; }

 private:
  struct End {
    UniqueFd socket;
    std::string held;  // for it
    bool watched = false;
    Loop::Readiness readiness = Loop::kReadable;
  };
  void carry();
  static constexpr std::size_t kForEver = std::numeric_limits<std::size_t>::max();
  bool read(End& from, End& to);
  bool write(End& to);
  void watch(std::size_t index);

  Loop& loop_;
  std::array<End, 2> ends_;
  bool stalled_ = false, closes_ = false;
  std::size_t left_ = kForEver;
};

}  // namespace lockstep::links
