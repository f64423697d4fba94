// What carries frames between the hosts of a run: one stream for each pair of hosts, in order. A
// frame is a header, which means something to its two ends alone, and a body, which goes from the
// sender's memory into the memory that the receiver names when it has seen the header.
//
// Engines: tcp/ is real, fake/ is for tests. Both ends of a pair open() it; the host with the
// higher index dials, again and again, at most a second apart, until it is aborted. A stream that
// breaks is told once, and is made again by itself; nothing of what was sent on it is sent again.
//
// Whatever comes is bounded: a header has kMostHeaderBytes, a body kMostBodyBytes at most, whoever
// has not said who it is costs one descriptor and some 100 bytes, and goes after a while.
//
// Ownership: loop, timers and events must outlive the links. Events come from the loop, never from
// a call of this object, and may call anything of it but its destructor. Errors are events.
// Threads: the loop's.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/address.h"
#include "control/timers.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::links {

using coord::HostIndex;
using Cookie = std::array<std::byte, 32>;

inline constexpr std::size_t kMostHeaderBytes = 128;
inline constexpr std::size_t kMostBodyBytes = std::size_t{1} << 20;

// One end of a pair. Both must be as the other end expects them.
struct Party {
  std::uint64_t attempt = 0;  // of the run's group
  coord::Stay stay;
  std::uint64_t incarnation = 0;  // of the host's agent
  friend bool operator==(const Party&, const Party&) = default;
};

struct Other {
  Party party;
  std::optional<control::Address> address = {};  // where it listens; tcp/ alone
  Cookie cookie = {};                            // the pair's, secret
};

struct Limits {
  std::chrono::milliseconds silence{3'000};   // nothing comes: the stream is broken
  std::chrono::milliseconds ping{250};        // something is sent at least so often
  std::chrono::milliseconds patience{5'000};  // with whoever has not said who it is
  std::size_t most_waiting = 64;              // of them
};

enum class Cause {
  // Not made:
  kRefused,      // nobody listens there
  kUnreachable,  // no way there
  kTooLate,      // no answer, or none in time
  kTurnedAway,   // it closed before it had said who it is: it expects nobody, or somebody else
  kStranger,     // who answers is not who was expected
  kLargeLost,    // it is the one that was expected, and large packets are lost on the way
  // The end of a stream:
  kGone,      // the other end's process has ended, or closed it
  kReset,     // broken off on the way, or by the other end's kernel
  kSilent,    // nothing has come for Limits::silence
  kBroken,    // it sent what no frame can be, or what was refused here
  kReplaced,  // the other end has made it anew
};

struct Failure {
  Cause cause = Cause::kGone;
  std::string text;  // for people
};

class Events {
 public:
  virtual ~Events() = default;
  // The pair's stream is there: frames may be sent.
  virtual void up(HostIndex host) = 0;
  // Where a body of so many bytes goes, 0 too: a span of that size, which stays valid until
  // landed() or down() of this host, or its abort(). None: nowhere, it is read and dropped. An
  // error ends the stream (kBroken).
  virtual Result<std::optional<std::span<std::byte>>> landing(HostIndex host,
                                                              std::string_view header,
                                                              std::size_t bytes) = 0;
  // All of it is there, or dropped. An error ends the stream (kBroken).
  virtual Status landed(HostIndex host, std::string_view header) = 0;
  // Less than half of kEnoughUnsent is left to be sent.
  virtual void room(HostIndex host) = 0;
  // What was up is so no more; what was landing stays as it is, unfinished, and is written by
  // nobody from now on.
  virtual void down(HostIndex host, const Failure& failure) = 0;
  // A pair cannot be made: once for each cause until it is up, or aborted.
  virtual void cannot(HostIndex host, const Failure& failure) = 0;
  // Who is nobody of this run: for a line in the log. Once for each address and reason; of more
  // than there is room to remember nothing is said.
  virtual void turned_away(const std::string& what) = 0;
};

// Whoever sends waits for room() above it.
inline constexpr std::size_t kEnoughUnsent = std::size_t{512} << 10;

class Links {
 public:
  virtual ~Links() = default;  // as abort() of all

  // The pair is wanted. Of one that is: does nothing if it is the same, else aborts it first.
  virtual void open(const Other& other) = 0;
  // The pair is closed, without an event, and is not made again until open(). When it returns
  // nothing of it can land any more, and nothing is read that was to be sent.
  virtual void abort(HostIndex host) = 0;
  virtual bool is_up(HostIndex host) const = 0;

  // Precondition: up. `header` is copied. `body` stays where it is until all that was sent before
  // and with it has gone (unsent() tells), or the stream is down.
  virtual void send(HostIndex host, std::string_view header, std::span<const std::byte> body) = 0;
  // The same, of a body that the links keep.
  virtual void send_copy(HostIndex host, std::string_view header, std::string body) = 0;
  // Bytes of frames that nobody has taken yet.
  virtual std::size_t unsent(HostIndex host) const = 0;
};

// `listener`: bound and listening. It stays open, and its port taken, as long as the links live.
Result<std::unique_ptr<Links>> make_tcp_links(Loop& loop, control::Timers& timers,
                                              UniqueFd listener, const Party& self, Limits limits,
                                              Events& events);

}  // namespace lockstep::links
