// A pair's stream over a connected socket, for all engines: what is sent and what comes, pings, and
// silence.
//
// Ownership: `loop` and `owner` must outlive it; it is made by start(), and is over after close()
// or the owner's ended(). Threads: the loop's.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "links/frames.h"
#include "links/links.h"

namespace lockstep::links {

class Stream : public std::enable_shared_from_this<Stream>, private Inbox::Sink {
 public:
  class Owner : public Inbox::Sink {  // of what comes
   public:
    virtual void room() = 0;
    // Once, and nothing after it.
    virtual void ended(const Failure& failure) = 0;
  };

  // `socket`: connected, and does not block. `name`: of the other end, in failures.
  static std::shared_ptr<Stream> start(Loop& loop, UniqueFd socket, std::string name,
                                       const Limits& limits, Owner& owner);
  ~Stream() override { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void send(std::string_view header, std::span<const std::byte> body);
  void send_copy(std::string_view header, std::string body);
  std::size_t unsent() const { return out_.unsent(); }
  // Now and then: pings, and ends it where the other end has been silent for too long. May call
  // the owner.
  void tick();
  // Without a word to the owner, which is not called any more.
  void close();
  Deadline::Clock::time_point began() const { return began_; }

 private:
  Stream(Loop& loop, UniqueFd socket, std::string name, const Limits& limits, Owner& owner);
  Result<std::optional<std::span<std::byte>>> landing(std::string_view header,
                                                      std::size_t bytes) override;
  Status landed(std::string_view header) override;
  void watch(bool writes);
  void on_ready();
  void read();
  void write();
  void fail(Cause cause, const std::string& what);
  void fail_of(int error);

  Loop& loop_;
  UniqueFd socket_;
  const std::string name_;
  const Limits limits_;
  Owner* owner_;  // nullptr: it is over
  Outbox out_;
  Inbox in_;
  bool writes_ = false;  // the loop tells when there is room
  const Deadline::Clock::time_point began_ = Deadline::Clock::now();
  Deadline::Clock::time_point heard_ = began_, said_ = began_;
};

}  // namespace lockstep::links
