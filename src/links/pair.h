// One other host, for all engines: wanted, and then, time and again, a stream to it. How a socket
// to it is come by is the engine's to know.
//
// Ownership: what the constructor is given must outlive it. Whoever calls it holds it meanwhile: an
// event may end it. Threads: the loop's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "links/stream.h"

namespace lockstep::links {

// Of a connection, both ways. Small ones get through where large ones are lost; they cost more.
enum class Packets { kAny, kSmall };
// `socket`: connected to whom it was to be; none: why not.
using Dialled = std::function<void(UniqueFd socket, const Failure& failure)>;

class Pair : private Stream::Owner {
 public:
  struct Place {
    Loop& loop;
    control::Timers& timers;
    Party self;
    Limits limits;
    Events& events;
    // Begins an attempt, which is given up where what is returned is let go of. `done` is called
    // once, from the loop, and may let go of it.
    std::function<std::shared_ptr<void>(const Other& other, Packets packets, Dialled done)> dial;
  };
  Pair(const Place& place, const Other& other);
  ~Pair() override { close(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  const Other& other() const { return other_; }
  // For good, without an event.
  void close();
  // A connection that the other end has dialled.
  void adopt(UniqueFd socket);
  Stream* stream() const { return stream_.get(); }
  void tick() {
    if (const auto stream = stream_) stream->tick();
  }

 private:
  HostIndex host() const { return other_.party.stay.host; }
  bool dials() const { return place_.self.stay.host > host(); }
  void dial_in(std::chrono::milliseconds time);
  void dial();
  void begin(UniqueFd socket);
  Result<std::optional<std::span<std::byte>>> landing(std::string_view header,
                                                      std::size_t bytes) override {
    return place_.events.landing(host(), header, bytes);
  }
  Status landed(std::string_view header) override { return place_.events.landed(host(), header); }
  void room() override { place_.events.room(host()); }
  void ended(const Failure& failure) override;

  const Place& place_;
  const Other other_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<void> dial_;
  control::Timers::Timer again_;
  std::chrono::milliseconds pause_{0};  // before the next dial
  std::optional<Cause> told_;           // why it could not be made last
  bool closed_ = false;
};

}  // namespace lockstep::links
