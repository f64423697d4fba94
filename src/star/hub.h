// The leader's side of a run on several nodes: listens at the endpoint, sees that who comes agrees
// (agreement.h), and carries words between the nodes and nodes::Leader.
//
// The leader's own node takes part by calls: exchange(). A node's address is the one that its
// connection comes from; the leader's own, for a node, the one that its connection leads to. So no
// name of a host is looked up, and nobody is told an address that has not been seen to work.
//
// Bounds: connections without a rank, which nobody has to give up, are at most two for each node
// and 16; for one more the oldest goes of the address that has most of them. Whoever says nothing
// for 5 s after its Hello goes, too, and who says what cannot be true (plausible.h).
//
// Ownership: `loop` and `timers` must outlive it. Errors: kUnavailable. Threads: the loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/connection.h"
#include "control/listener.h"
#include "nodes/leader.h"
#include "star/messages.h"
#include "star/not_let_in.h"

namespace lockstep::star {

// Connections without a rank: so many, beside two for each node.
inline constexpr std::size_t kMoreStrangers = 16;

class Hub {
 public:
  struct Plan {
    nodes::Rules rules;
    nodes::Row own;
    std::uint64_t run = 0;         // nodes::Leader's
    nodes::Leader::Record before;  // the same
    message::Hello self;           // what all must agree in
    control::Party party;
    std::string advertised;            // numeric, of --local-addr; "": as connections show it
    clockid_t clock = CLOCK_BOOTTIME;  // of all that nodes/ is told
    std::string where;                 // it leads, for those who wait for a first attempt
  };
  // Where it listens, each on one socket.
  struct ListenSocket {
    UniqueFd socket;
    std::shared_ptr<const control::TlsSettings> tls;  // none: without a key
    bool on_this_machine = false;                     // an abstract socket
  };
  struct Events {
    std::function<void()> news;  // a word has come: exchange() the own node's
    // Before words of a new attempt are sent.
    std::function<void(const nodes::Leader::Record&)> keep = [](const nodes::Leader::Record&) {};
    std::function<void(UniqueFd)> store;  // Listener's; none: such clients are turned away
    std::function<void(const message::Failed&)> failed;  // why the run ends, by its node
    // Who has come is no node: it asks how the run is, or for its end (StatusQuery, StopOrder).
    std::function<void(std::shared_ptr<control::Connection>, const Message&)> asked;
  };
  static Result<std::unique_ptr<Hub>> open(Loop& loop, control::Timers& timers,
                                           std::vector<ListenSocket> sockets, Plan plan,
                                           Events events);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // The store is about to begin anew: closes clients that were not handed to it yet.
  void drop_store_clients();
  nodes::LeaderWord exchange(const nodes::NodeWord& own);
  // To all other nodes, those that come later too.
  void tell_all(const message::Failed& failed);
  const nodes::Leader& leader() const { return leader_; }
  // At which connections of other machines have come; never empty: 127.0.0.1 where none has.
  std::vector<std::string> own_addresses() const;
  // Says goodbye to all; what is on its way still arrives.
  void leave();
  bool has_left() const;

 private:
  struct Peer {
    std::shared_ptr<control::Connection> connection;
    message::Hello hello;
    std::string address, local;  // numeric: its end, and ours; "": it is within the machine
    Deadline first_word_by;
    bool heard = false;
    bool refusal_told = false, compared = false;
  };

  Hub(Loop& loop, control::Timers& timers, Plan plan, Events events);
  std::uint64_t now() const { return clock_ns(plan_.clock); }
  Status listen(std::vector<ListenSocket> sockets);
  void come(const std::shared_ptr<control::Connection>& connection, std::string_view first);
  void tell_lead(const std::shared_ptr<control::Connection>& connection);
  void refuse(control::Connection& connection, const message::Refused& refused);
  void make_room();
  void drop_silent();
  void let_go(std::shared_ptr<control::Connection> connection);
  void hear(nodes::Link link, std::string_view frame);
  void lose(nodes::Link link, const control::Failure& failure);
  void drop(nodes::Link link);
  void beat();
  void tell_missing();
  void tell_changes();
  void tell(nodes::Link link, Peer& peer);
  void tell_other_program(Peer& peer);
  std::string own_address() const;  // the first of own_addresses()

  Loop& loop_;
  control::Timers& timers_;
  const Plan plan_;
  const Events events_;
  const std::uint64_t begun_ns_;
  nodes::Leader leader_;
  std::vector<std::unique_ptr<control::Listener>> listeners_;
  std::map<nodes::Link, Peer> peers_;
  std::deque<std::shared_ptr<control::Connection>> leaving_;
  nodes::Link last_link_ = nodes::kOwnLink;
  std::uint64_t told_version_ = 0;
  std::string failed_;  // the message that all are told; "": none yet
  nodes::Attempt kept_ = 0;
  control::Timers::Timer beat_;
  Deadline tell_missing_at_;
  NotLetIn not_let_in_;
  bool other_program_told_ = false;
};

}  // namespace lockstep::star
