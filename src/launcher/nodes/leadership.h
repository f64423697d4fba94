// Who leads a run on several nodes: this launcher, or another one that it dials. At one endpoint
// that is settled by where the endpoint is; of a list launchers lead in turn (nodes/succession.h).
//
//   nodes::Node ⇄ talk() ⇄ star::Hub here, or star::Spoke to another's, or neither yet
//
// Ownership: of its sockets; what is in Around outlives it. Threads: the loop's. Errors: open()'s;
// later ones end the node.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/loop.h"
#include "control/timers.h"
#include "launcher/nodes/leader_record.h"
#include "launcher/nodes/meeting.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"
#include "nodes/node.h"
#include "nodes/succession.h"
#include "star/hub.h"
#include "star/lookout.h"
#include "star/spoke.h"

namespace lockstep::launcher {

nodes::Rules rules_of(const LaunchOptions& options);

class Leadership {
 public:
  struct Around {
    const LaunchOptions& options;
    Loop& loop;
    control::Timers& timers;
    clockid_t clock;
    control::Party party;
    nodes::Row row;
    nodes::Node& node;
    std::function<void()> look;  // the node has news
    std::function<void()> beat;  // now and then
    // Another leader than before hears this node: what it was told is to be told again.
    std::function<void()> met;
    // The node has heard it; its answer follows.
    std::function<void(const nodes::LeaderWord&)> heard;
    std::function<void(const star::message::Failed&)> failed;  // why the run ends, elsewhere
    // Of who leads: Hub::Events'.
    std::function<void(UniqueFd)> store;
    std::function<void(std::shared_ptr<control::Connection>, const star::Message&)> asked;
  };
  explicit Leadership(Around around);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Looks where to meet: once, before open().
  Status find();
  // Meets the others, or begins to try.
  Status open();

  // Carries what the node says. True: the leader, which is this one, has said something new.
  bool talk();
  // The failure that ends the run, to the leader or, of who leads, to all.
  void tell(star::message::Failed failed);
  // What the node says is to be said again.
  void say_again() { said_ = 0; }

  bool leads() const { return hub_ != nullptr; }
  const star::Hub* hub() const { return hub_.get(); }
  const star::Spoke* spoke() const { return spoke_.get(); }
  void drop_store_clients();
  const Meeting& meeting() const { return meeting_; }
  // Where it leads, or the leader is dialled: HOST:PORT.
  std::string endpoint() const;
  int port() const { return here_.endpoint_port; }  // where it leads
  std::vector<std::string> own_addresses() const;
  // Why the leader is not reached; "": it is.
  std::string trouble() const;

  // The run has ended: says goodbye to all; what is on its way still arrives.
  void leave();
  bool has_left() const;

 private:
  std::uint64_t now() const { return clock_ns(around_.clock); }
  bool in_turn() const { return !around_.options.nodes.places.empty(); }
  star::message::Hello hello() const;
  Status lead();
  star::Hub::Events hub_events();
  void dial(const NodesOptions& at);
  star::Spoke::Events spoke_events();
  void look_again();
  void wait_for_beat();
  std::string advice(const control::Failure& failure) const;

  // leadership_in_turn.cpp: of a list of endpoints.
  void open_in_turn();
  std::unique_ptr<star::Lookout> lookout();
  void look_around();
  // By another run's leader, or by what is none. `may_be_foreign`: that one has another list.
  void refused(const nodes::Final& why, bool may_be_foreign);
  void look_soon(std::chrono::milliseconds in);
  void go_on_leading();
  void go_on_without();
  void take_over();
  void yield();
  void follow(int place);
  NodesOptions at(int place) const;
  std::string others_are_looked_at() const;
  std::vector<LeaderRecord> records_here() const;

  const Around around_;
  Meeting meeting_;
  NodesOptions here_;                   // where this launcher may lead
  std::optional<LeaderRecord> record_;  // of who leads
  std::unique_ptr<star::Hub> hub_, old_hub_;
  std::unique_ptr<star::Spoke> spoke_, old_spoke_;
  std::uint64_t said_ = 0;  // version of the node's word
  control::Timers::Timer beat_, look_again_;

  std::unique_ptr<nodes::Succession> succession_;
  std::unique_ptr<star::Lookout> lookout_;
  int target_ = -1;  // the place that is dialled; -1: none
  // A leader that is dialled has that much time before others are looked for: where all is well it
  // is there, and nobody else is asked.
  static constexpr std::chrono::milliseconds kStart{250};
  // Why this node ends unless it finds its own leader soon.
  std::optional<nodes::Final> refused_;
  Deadline refused_until_ = Deadline::in({});
  Deadline look_from_ = Deadline::in({});
  bool taken_told_ = false;  // the port at this one's place is somebody else's
  control::Timers::Timer turn_;
};

}  // namespace lockstep::launcher
