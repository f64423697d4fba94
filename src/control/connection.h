// One connection between two launchers: frames both ways, in order, sealed where there is a key.
//
// On the wire: the preface (preface.h) of each side, then frames, u32 length (little-endian) and so
// many bytes, 1 MiB at most; a frame of no bytes is the goodbye. With a key all of it is in TLS.
// Before the preface has been read no more than 16 KiB are taken.
//
// Ownership: whoever holds the pointer; letting go of it closes without a word, close() says
// goodbye. `loop` and `timers` must outlive it. Events come from the loop, never from a call of
// this object; each may let go of it. Errors are events. Threads: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/address.h"
#include "control/failure.h"
#include "control/preface.h"
#include "control/timers.h"
#include "control/tls.h"

namespace lockstep::control {

inline constexpr std::size_t kMostFrameBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostQueuedBytes = std::size_t{4} << 20;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Plan {
    Side side = Side::kDials;
    Party self;
    std::shared_ptr<const TlsSettings> tls;          // none: without a key
    std::string run_id;                              // of who dials
    std::string name;                                // of the other side, in messages
    std::size_t most_first_bytes = kMostFrameBytes;  // of the first frame that comes
  };
  struct Events {
    std::function<void(const Party& other)> open = [](const Party&) {};
    std::function<void(std::string_view frame)> frame = [](std::string_view) {};
    // Once, and nothing after it; not after close().
    std::function<void(const Failure&)> ended = [](const Failure&) {};
  };

  // `socket`: connected, and does not block.
  static std::shared_ptr<Connection> start(Loop& loop, Timers& timers, UniqueFd socket, Plan plan,
                                           Events events);
  // Sends `bytes` as they are, and closes; whoever it is has its reason then.
  static void turn_away(Loop& loop, Timers& timers, UniqueFd socket, std::string bytes);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // What they hold is let go of when the connection ends, or is closed.
  void hear(Events events) { events_ = std::make_shared<const Events>(std::move(events)); }
  // From 1 to kMostFrameBytes. Where more than kMostQueuedBytes would wait for the other side, the
  // connection ends (kOverrun). Does nothing on one that is not open.
  void send(std::string_view frame);
  // Says goodbye after all that is on its way. The socket stays for it, 1 s at most.
  void close();
  bool is_open() const { return state_ == State::kOpen; }
  // What was sent has been sent again in vain. The kernel waits twice as long each time, and so for
  // long after a cut is over: another connection gets through before.
  bool is_stuck() const;
  // The socket is closed: after close(), what was sent has arrived or never will.
  bool is_over() const { return state_ == State::kOver; }

  const std::string& name() const { return plan_.name; }
  // As they are at this end; none of a connection within the machine by its abstract socket.
  const std::optional<Address>& local() const { return local_; }
  const std::optional<Address>& remote() const { return remote_; }

 private:
  enum class State { kOpening, kOpen, kLeaving, kOver };

  Connection(Loop& loop, Timers& timers, UniqueFd socket, Plan plan, Events events);
  void begin();
  void watch(bool writes);
  void on_ready();
  void read();
  void take(std::string_view wire);
  void parse();
  void read_first();
  void greet(const Party& other);
  bool read_frame(std::size_t& at);
  void say(std::string_view plain);
  void flush();
  void on_end_of_stream();
  void fail(Failure failure);
  void fail_later(Failure failure);
  void leave();
  void finish();
  std::string sentence(Outcome outcome, const std::string& detail) const;

  Loop& loop_;
  Timers& timers_;
  UniqueFd socket_;
  const Plan plan_;
  std::shared_ptr<const Events> events_;
  std::optional<Address> local_, remote_;
  State state_ = State::kOpening;
  std::optional<Tls> tls_;
  bool greeted_ = false;      // our preface is on its way
  std::size_t received_ = 0;  // bytes of the wire, while opening
  bool heard_ = false;        // a frame has come
  std::string plain_;         // received, and not yet a whole frame
  std::string out_;           // for the wire
  std::size_t sent_ = 0;      // of out_
  bool writes_ = false;       // the loop tells when there is room
  bool shut_ = false;         // nothing more is sent
  int send_error_ = 0;        // what a send was told, but for EPIPE
  Timers::Timer timer_;
};

}  // namespace lockstep::control
