// This host's link, as its agent has it, and the host's part in rounds: on its board nobody owns
// what the leader has not said.
//
// Ownership: what is in Around outlives it; the link's process ends with it. Threads: the loop's.
// Errors: open()'s; later ones end this host's part in the run through the head.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "carrier/board_memory.h"
#include "control/timers.h"
#include "coord/board.h"
#include "launcher/hosts/hosts_head.h"
#include "launcher/hosts/link_process.h"
#include "launcher/hosts/mesh.h"
#include "launcher/processes/process.h"
#include "link/host_rounds.h"
#include "link/marks.h"
#include "link/messages.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Rounds of a start of the group are newer than all of those before it; of one start those of the
// newer leader.
constexpr std::uint64_t round_term(std::int64_t restarts, std::uint64_t term) {
  return (static_cast<std::uint64_t>(restarts) << 32U) | term;
}

class HostLink {
 public:
  struct Around {
    Loop& loop;
    control::Timers& timers;
    const Mesh& mesh;
    HostsHead& head;
    std::function<std::chrono::milliseconds()> limit;  // L, once all have met
    std::function<int()> board_fd;
    std::function<coord::Board()> board;                 // mapped whole
    std::function<void(const link::RoundMessage&)> say;  // to the leader
    std::function<void()> look;                          // the head has news to look at
  };
  explicit HostLink(Around around);

  Status listen();
  const UniqueFd& listener() const { return listener_; }

  // The link, of the board that there is now: once all have met.
  void begin();
  // The board has been replaced. True: of a new start of the group; else of this host's next stay.
  bool renew_board();
  // Promises this leader's term, and says so.
  void follow(std::uint64_t term);
  void hear(const link::RoundMessage& message);  // of the leader
  // After each turn of the head. True: it has something new to look at.
  bool go_on();

  // With whom the link should have a stream, and has none. None before it has the run's plan.
  std::vector<link::HostIndex> unreached();
  carrier::BoardMemory* memory();  // null: the board has no plan yet
  // The run's, once any board of this host has had it.
  const std::optional<link::SamePlan>& plan();

  // True: the event was of the link's process.
  bool event(const ChildEvent& event) { return link_ && link_->event(event); }
  bool keeps(pid_t child) const { return link_ && link_->pid() == child; }
  void end() { link_.reset(); }

 private:
  const coord::RunFacts& facts() const { return around_.head.coordinator().facts(); }
  link::HostIndex index() const { return static_cast<link::HostIndex>(around_.mesh.self()); }
  void take_board();
  void gone(const std::string& why);
  void tell(const carrier::Line& line);
  void promise();
  void order();
  std::vector<links::Other> others() const;
  links::Cookie cookie_of(std::size_t host) const;

  const Around around_;
  UniqueFd listener_;
  std::unique_ptr<LinkProcess> link_;
  std::unique_ptr<carrier::BoardMemory> memory_;
  std::optional<link::SamePlan> plan_;
  std::optional<link::HostRounds> rounds_;
  std::uint64_t term_ = 0;                // of who leads
  int attempt_ = 0;                       // of the board
  Deadline since_ = Deadline::in({});     // the link has lived for a second
  int short_lives_ = 0;                   // of links before it, in a row
  std::optional<link::Stamp> closed_;     // by the link
  std::vector<link::HostIndex> working_;  // with these the link has a stream
  std::vector<std::string> ended_;        // lines about others' links, to be told
  control::Timers::Timer tell_ended_;
  bool order_due_ = false;
  bool renews_ = false;      // the link is to end, as its board has
  coord::RunFacts ordered_;  // as the link was told last
};

}  // namespace lockstep::launcher
