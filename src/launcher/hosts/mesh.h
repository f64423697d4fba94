// How the agents of a linked program's run on several hosts reach each other. They meet at the
// endpoint's, which tells all of them who takes part; from then on each pair has a connection: the
// endpoint's agent is dialled by all, of two others the lower one by the higher. Whatever breaks is
// dialled again, also while the other one is out of the run: it is to be told so. Who cannot be
// reached is for others to judge and to tell.
//
// Whoever was refused by its own machine, before there was a connection, becomes the endpoint's.
//
// Where agents answer others than at the endpoint: a free port of theirs; within one machine an
// abstract socket, whose number is no port's.
//
// Ownership: loop and timers must outlive it. Threads: the loop's. Errors: open()'s; later ones are
// events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/timers.h"
#include "launcher/nodes/meeting.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"
#include "star/gathering.h"
#include "star/notice.h"
#include "star/spoke.h"

namespace lockstep::launcher {

class Mesh {
 public:
  struct Events {
    std::function<void()> formed;  // all have met: once
    // Of another host: there is a connection, a new one too; what it says; there is none.
    std::function<void(std::size_t host)> open;
    std::function<void(std::size_t host, const std::string& frame)> talk;
    std::function<void(std::size_t host)> closed;
    // This agent cannot take part.
    std::function<void(int code, const std::string& why)> refused;
  };
  // `limit`: L, as this agent has it; once all have met it is the endpoint's.
  Mesh(Loop& loop, control::Timers& timers, const LaunchOptions& options,
       std::chrono::nanoseconds limit, Events events);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Looks where to meet.
  Status find();
  // Meets the others, or begins to try. `links`: a socket on which this host's link listens.
  Status open(const UniqueFd& links);

  bool is_formed() const { return formed_.self >= 0; }
  // Valid once it is formed.
  const star::message::Formed& formed() const { return formed_; }
  std::size_t self() const { return static_cast<std::size_t>(formed_.self); }
  // Numeric; as it is seen from here or at the endpoint.
  std::string address_of(std::size_t host) const;
  std::size_t endpoint() const { return endpoint_; }  // the host whose agent is the endpoint's

  // Who has not come yet, for people, or who can tell; "": the endpoint's agent is not reached.
  std::string missing() const;
  const Meeting& meeting() const { return meeting_; }
  const control::Party& party() const { return party_; }

  bool has(std::size_t host) const;  // a connection
  // Does nothing where there is none. kInternal: it is too long to be said to anybody.
  Status say(std::size_t host, const std::string& frame);
  // Who leads: all others speak to it alone, as long as all is well.
  void expect_words_of(std::size_t leader);
  void drop(std::size_t host);  // its launcher has ended
  // The run goes on without the agent that was the endpoint's, which is dropped: whoever is started
  // there is to hear so. As often as one likes.
  void tell_at_endpoint();
  void leave();  // says goodbye to all; what is on its way still arrives
  bool has_left() const;

 private:
  std::uint64_t limit_ns() const;
  star::message::Hello hello() const;
  star::message::Claim claim() const;
  Status answer_others();
  Status lead();
  void dial();
  void look_again();
  void form(const star::message::Formed& formed);
  void reach_others();
  std::unique_ptr<star::Spoke> spoke_to(std::size_t host);
  star::Gathering::Events gathering_events();
  star::Gathering::Plan gathering_plan() const;
  star::Spoke::Plan spoke_plan(const std::string& host, int port) const;
  void opened(std::size_t host);
  void ended(std::size_t host);
  star::Spoke* spoke(std::size_t host) const;

  Loop& loop_;
  control::Timers& timers_;
  const LaunchOptions& options_;
  const std::chrono::nanoseconds limit_;  // until all have met
  const Events events_;
  const control::Party party_;
  Meeting meeting_;
  std::uint16_t link_port_ = 0;
  std::uint32_t port_ = 0;                      // where this agent answers
  star::Hub::ListenSocket door_;                // there, until all have met
  std::unique_ptr<star::Gathering> gathering_;  // the endpoint's, or this agent's own
  std::unique_ptr<star::Spoke> to_endpoint_;    // elsewhere
  std::unique_ptr<star::Notice> notice_;        // the same, once that one is dropped and out
  std::map<std::size_t, std::unique_ptr<star::Spoke>> spokes_;  // others that this agent dials
  std::size_t endpoint_ = 0;
  std::map<std::size_t, bool> has_;
  control::Timers::Timer look_again_;
  star::message::Formed formed_{.self = -1, .run = 0, .hosts = {}};
};

}  // namespace lockstep::launcher
