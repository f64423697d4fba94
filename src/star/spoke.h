// A node's side of a run on several nodes: dials the endpoint until there is a connection, says
// what must agree, carries words between nodes::Node and the leader, and dials again where the
// connection ends.
//
// Where nothing comes for L / 3 from whom words are expected, or nothing that is said gets through,
// it dials beside the connection, which stays: a pause or a cut may pass, and then whichever works
// first, both ways, is the connection. So silence is no close: closed() is what the other side has
// done (goodbye, its process or machine gone, nobody listens any more).
//
// Once a leader has answered it is dialled at that address first, and by the endpoint's name beside
// it: names may not be resolved for a while, and the leader may have moved. Who answers first with
// the run's key is it.
//
// While nobody answers a line says why: 5 s after the beginning, then every 30 s. A leader that is
// not up yet is no error.
//
// Ownership: `loop` and `timers` must outlive it. Errors are events. Threads: the loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/loop.h"
#include "control/connection.h"
#include "control/dial.h"
#include "nodes/words.h"
#include "star/messages.h"

namespace lockstep::star {

class Spoke {
 public:
  struct Plan {
    std::string host;  // of the endpoint, as the user gave it; looked up anew by each dial
    int port = 0;
    bool on_this_machine = false;  // by its abstract socket, without a key
    message::Hello self;
    control::Party party;
    std::shared_ptr<const control::TlsSettings> tls;  // none: without a key
    std::optional<control::Address> from;             // --local-addr
    std::uint64_t limit_ns = 0;                       // L, until the leader tells it
    clockid_t clock = CLOCK_BOOTTIME;                 // of all that nodes/ is told
    control::FindAddresses find = control::find_addresses;
  };
  struct Events {
    std::function<void()> open;    // the leader agrees: say() the node's word
    std::function<void()> closed;  // by the other side
    // Of plain programs; the second one is of elsewhere: why the run ends.
    std::function<void(const nodes::LeaderWord&)> word = [](const nodes::LeaderWord&) {};
    std::function<void(const message::Failed&)> failed = [](const message::Failed&) {};
    // Of linked programs: Formed or Talk.
    std::function<void(const Message&)> of_hosts = [](const Message&) {};
    // By this machine, before there ever was a connection: who leads may be this node.
    std::function<void()> refused_here = [] {};
    // Behind what is told of a dial that failed, or of a leader that does not let it in.
    std::function<std::string(const control::Failure&)> advice = [](const auto&) { return ""; };
    // Behind what is told of a leader that is not reached: how long it is tried still.
    std::function<std::string()> tries_on = [] { return ""; };
    // For good: there is nothing to be dialled for.
    std::function<void(const nodes::Final&)> refused;
  };
  Spoke(Loop& loop, control::Timers& timers, Plan plan, Events events);
  ~Spoke();
  Spoke(const Spoke&) = delete;
  Spoke& operator=(const Spoke&) = delete;

  // Does nothing where no leader has agreed.
  void say(const nodes::NodeWord& word);
  void tell(const Message& message);
  bool is_open() const { return open_; }
  // This end's address, numeric; "127.0.0.1" within the machine. Valid once it was open.
  const std::string& local_address() const { return local_address_; }
  // The other end's, as it was dialled: the leader may have another one itself. Likewise.
  const std::string& leader_address() const { return leader_address_; }
  // Why there is no connection; "": there is one.
  const std::string& trouble() const { return trouble_; }
  // As at first. If not, the other side has nothing to say as long as all is well.
  void expect_words(bool expects);
  // No more lines of why there is no connection.
  void be_quiet() { quiet_ = true; }
  void leave();
  bool has_left() const { return !connection_ || connection_->is_over(); }

 private:
  void dial();
  void dial_by_name();
  bool dial_last_address();
  std::unique_ptr<control::Dial> start_dial(const std::string& host, control::Dial::Done done);
  void drop_dials();
  void failed(const control::Failure& failure);
  void failed_at_last_address(const control::Failure& failure);
  void failed_beside(const control::Failure& failure);
  bool is_refused_there(const control::Failure& failure) const;
  void begin(const std::shared_ptr<control::Connection>& connection);
  void is_elsewhere(const control::Connection& from, const std::string& why);
  void hear(const control::Connection& from, std::string_view frame);
  void replace();
  void heard();
  void on(const message::Welcome& welcome);
  void on(const message::Refused& refused);
  void on(const nodes::LeaderWord& word);
  void on(const message::Failed& failed) { events_.failed(failed); }
  void on(const message::Formed& formed) {
    limit_ns_ = formed.limit_ns;
    on_hosts(formed);
  }
  void on(const message::Talk& talk) { on_hosts(talk); }
  void on_hosts(const Message& message);
  template <class Other>
  void on(const Other& /*nothing that a leader says*/) {}
  void dial_again();
  void drop_fresh();
  void ended(const control::Connection& which, const control::Failure& failure);
  void lost(const control::Failure& failure);
  void watch();
  void dial_beside();
  void tell_trouble();

  Loop& loop_;
  control::Timers& timers_;
  const Plan plan_;
  const Events events_;
  std::unique_ptr<control::Dial> dial_;     // by the endpoint's name
  std::unique_ptr<control::Dial> to_last_;  // the leader's last address
  std::shared_ptr<control::Connection> connection_;
  // Dialled beside a silent one, until the leader's Welcome; and that one, until a word has come by
  // the new one: before that its end would look like this node's.
  std::shared_ptr<control::Connection> fresh_, old_;
  bool open_ = false;  // the leader has said Welcome
  bool quiet_ = false;
  bool expects_words_ = true;
  bool was_open_ = false;
  std::uint64_t limit_ns_;
  std::string local_address_ = "127.0.0.1";
  std::string leader_address_;
  std::string trouble_;
  std::string last_address_, last_trouble_;  // of the leader; why it is not reached there
  // Made to that address, and no Welcome yet: another run's leader may be there by now.
  const control::Connection* doubtful_ = nullptr;
  std::chrono::milliseconds pause_{0};      // before the next dial
  std::optional<Deadline> not_ours_until_;  // that somebody else answers may pass
  Deadline heard_by_, fresh_by_, tell_at_, often_until_;
  bool beside_ = false;     // it dials although there is a connection
  bool has_start_ = false;  // the last address, before the name
  control::Timers::Timer next_dial_, next_to_last_, watch_;
};

}  // namespace lockstep::star
