// Frames as bytes of a stream, for all engines: u32 bytes of the header, u32 bytes of the body, the
// header, the body. Both lengths 0: a ping, which only says that the sender lives.
//
// Threads: one at a time. Errors: kBadData.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "links/links.h"
#include "lockstep/status.h"

namespace lockstep::links {

inline constexpr std::size_t kLengthBytes = 2 * sizeof(std::uint32_t);

// What is to be sent, in order, where it lies.
class Outbox {
 public:
  void add(std::string_view header, std::span<const std::byte> body);
  void add(std::string_view header, std::string body);
  // Behind the frame that is under way, before all others.
  void add_ping();
  // The next bytes. How many of the pieces are filled.
  std::size_t gather(std::span<iovec> pieces) const;
  void sent(std::size_t bytes);
  std::size_t unsent() const { return unsent_; }

 private:
  struct Frame {
    std::array<char, kLengthBytes + kMostHeaderBytes> head;
    std::size_t head_bytes = 0;
    std::string own;  // the body, or:
    std::span<const std::byte> lent = {};
    std::size_t bytes() const { return head_bytes + body().size(); }
    std::span<const std::byte> body() const {
      return lent.empty() ? std::as_bytes(std::span(own)) : lent;
    }
  };
  static Frame frame_of(std::string_view header, std::size_t body_bytes);
  void push(Frame frame);

  std::deque<Frame> frames_;
  std::size_t begun_ = 0;  // bytes of the first that are sent
  std::size_t unsent_ = 0;
};

// What comes. Large bodies are read where they land; what comes with them of the next frame, and
// small frames, are read here first.
class Inbox {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Result<std::optional<std::span<std::byte>>> landing(std::string_view header,
                                                                std::size_t bytes) = 0;
    virtual Status landed(std::string_view header) = 0;
  };

  // Where the next bytes go, never empty.
  std::array<iovec, 2> room();
  // So many have come there. What came is no frame, or the sink has refused it.
  Status take(std::size_t bytes, Sink& sink);

 private:
  Status parse(Sink& sink);
  Status begin(Sink& sink, std::size_t bytes);
  void feed_body(std::span<const std::byte> bytes);

  std::array<std::byte, 4096> stage_;  // whatever follows the body in hand
  std::size_t begin_ = 0, end_ = 0;
  std::string header_;    // of the body in hand
  std::size_t left_ = 0;  // of it
  bool in_body_ = false;
  std::byte* to_ = nullptr;  // nullptr: into the bin
};

}  // namespace lockstep::links
