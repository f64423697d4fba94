// Who asks a launcher of several nodes from outside: `lockstep status` and `lockstep stop`. They
// come over the control plane, where the leader listens (star::Hub::Events::asked), or on this
// machine by the launcher's own abstract socket, whether it leads or not.
//
// Askers are bounded, though they have the key: there are kMostAskers at a time, and the oldest
// goes for one more; each has kPatience and kMostQuestions in all.
//
// Ownership: `loop` and `timers` must outlive it. Threads: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "control/connection.h"
#include "control/listener.h"
#include "control/timers.h"
#include "lockstep/status.h"
#include "star/messages.h"

namespace lockstep::launcher {

// The abstract sockets of this user's launchers of a run begin so.
std::string socket_names_of(const std::string& run_id);

class Answers {
 public:
  static constexpr std::size_t kMostAskers = 16;
  static constexpr std::chrono::milliseconds kPatience{10'000};
  // One for each kMostMembers nodes, and as many again.
  static constexpr int kMostQuestions = 128, kMostMembers = 1024;

  struct Events {
    std::function<star::message::Answer(const star::message::StatusQuery&)> status;
    // `from`: who asks, for people.
    std::function<star::message::Answer(const std::string& from)> stop;
  };
  Answers(Loop& loop, control::Timers& timers, Events events);
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // On this machine. kUnavailable.
  Status listen(const std::string& run_id, const control::Party& party);
  void come(std::shared_ptr<control::Connection> connection, const star::Message& first);
  // Now and then.
  void look();
  // Says goodbye to all; what is on its way still arrives.
  void leave();
  bool has_left() const;

 private:
  struct Asker {
    std::uint64_t id = 0;
    std::shared_ptr<control::Connection> connection;
    int questions = 0;
    control::Timers::Timer limit;
  };
  void hear(std::uint64_t id, std::string_view frame);
  void answer(Asker& asker, const star::Message& question);
  void drop(std::uint64_t id);

  Loop& loop_;
  control::Timers& timers_;
  const Events events_;
  std::unique_ptr<control::Listener> listener_;
  std::list<Asker> askers_;  // by their coming
  std::list<std::shared_ptr<control::Connection>> leaving_;
  std::uint64_t last_id_ = 0;
};

}  // namespace lockstep::launcher
