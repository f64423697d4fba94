// Where agents of a linked program's run on several hosts come in. At the endpoint: sees that who
// comes agrees (agreement.h), and gives each host its index. Who takes part is settled once, when
// all have come: an agent that is started later is refused. From then on each agent has one, for
// those that dial it. Carries frames between this agent and the others (link/agent_talk.h).
//
// Bounds: connections that are no host's are two for each host and 16 at most, and have 5 s to say
// who they are.
//
// Ownership: `loop` and `timers` must outlive it. Errors: kUnavailable. Threads: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/loop.h"
#include "control/connection.h"
#include "control/listener.h"
#include "star/hub.h"
#include "star/messages.h"
#include "star/not_let_in.h"

namespace lockstep::star {

class Gathering {
 public:
  struct Plan {
    int hosts = 2;
    message::Claim own;
    message::Hello self;  // what all must agree in
    control::Party party;
    // At the endpoint: cookies come from it, and the run's id.
    std::string secret = {};
    // Elsewhere: all have come, and this agent has been told who they are.
    std::optional<message::Formed> formed = {};
  };
  struct Events {
    std::function<void()> formed;  // all have come
    // A host has a connection, a new one too; what it says on it; it has none: the other side has
    // closed it. What this machine's kernel gives up is silence, and is not told.
    std::function<void(int host)> open;
    std::function<void(int host, const std::string& frame)> talk;
    std::function<void(int host)> closed;
    // Before all have come: this one takes part in another run of that name, which goes on.
    std::function<void(const std::string& who)> has_run = [](const std::string&) {};
  };
  static Result<std::unique_ptr<Gathering>> open(Loop& loop, control::Timers& timers,
                                                 std::vector<Hub::ListenSocket> sockets, Plan plan,
                                                 Events events);
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  // As each host is told; `self`: the one that it is for. Once all have come.
  message::Formed formed_for(int self) const;
  int own() const { return own_; }
  // "node 1, node 2"; where no ranks are given "1 more (1 of 2 nodes are here)". "": nobody is.
  std::string missing() const;
  void say(int host, const std::string& frame);  // does nothing where there is no connection
  // Says goodbye to all; what is on its way still arrives.
  void leave();
  bool has_left() const;

 private:
  using Link = std::uint64_t;
  struct Peer {
    std::shared_ptr<control::Connection> connection;
    message::Hello hello;
    std::string address;
    Deadline claim_by;
    int host = -1;
  };
  struct Seat {
    message::Claim claim;
    std::string address;
    std::optional<Link> link;
  };

  Gathering(control::Timers& timers, Plan plan, Events events);
  void come(const std::shared_ptr<control::Connection>& connection, std::string_view first);
  void hear(Link link, std::string_view frame);
  void claim(Link link, const message::Claim& claim);
  int seat_for(const message::Claim& claim) const;
  void sit(int host, Link link, const message::Claim& claim);
  // `failure`: how the connection ended; none: it is ended here.
  void lose(Link link, const control::Failure& failure = {control::Outcome::kClosed, ""});
  void settle(const message::Formed& formed);
  std::uint64_t run() const;
  void refuse(Link link, const std::string& option, const std::string& why, message::Reason reason);
  void look();
  std::string cookie(int one, int other) const;

  control::Timers& timers_;
  const Plan plan_;
  const Events events_;
  std::vector<std::unique_ptr<control::Listener>> listeners_;
  std::map<Link, Peer> peers_;
  std::vector<std::shared_ptr<control::Connection>> leaving_;
  std::vector<std::optional<Seat>> seats_;  // by index
  int own_ = 0;
  bool formed_ = false;
  Link last_ = 0;
  NotLetIn not_let_in_;
  control::Timers::Timer look_;
};

}  // namespace lockstep::star
