// What the agent has that leads a run on several hosts, beside the run's keeper: what it says to
// each host, which hosts are lost, and rounds. As long as it leads; the next one begins anew, with
// the run's state and what the hosts say.
//
// A host is lost that is silent for L, has closed its connection for 1 s, or whose launcher has
// ended; and whoever has to go where links do not reach each other. All follows from a state of the
// run that is in force, in one stamp with the change of the set where there is one.
//
// Ownership: what is in Around outlives it. Threads: the loop's. Errors: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/stamp.h"
#include "coord/run_lead.h"
#include "launcher/hosts/cuts.h"
#include "launcher/hosts/host_link.h"
#include "launcher/hosts/hosts_head.h"
#include "launcher/hosts/mesh.h"
#include "launcher/hosts/quorum_talk.h"
#include "link/agent_talk.h"
#include "link/round_keeper.h"

namespace lockstep::launcher {

class HostsLead {
 public:
  struct Around {
    HostsHead& head;
    HostLink& link;
    const Mesh& mesh;
    QuorumTalk& quorum;
    std::chrono::milliseconds limit;                               // L
    std::function<void(std::size_t host, std::string frame)> say;  // to each, itself too
    std::function<bool(std::size_t host)> has_ended;               // its launcher, as is known
    std::function<void()> look;                                    // the head has news to look at
  };
  // Leads from now on, in the agent's term, with `state` as it was at `as_of`.
  HostsLead(Around around, const coord::RunState& state, std::uint64_t as_of);
  ~HostsLead();
  HostsLead(const HostsLead&) = delete;
  HostsLead& operator=(const HostsLead&) = delete;

  std::uint64_t term() const { return term_; }
  void open(std::size_t host);  // there is a connection, a new one too
  void close(std::size_t host);
  void hear(std::size_t host, const std::string& frame);
  // After each turn of the head. True: it has something new to look at.
  bool go_on();
  void beat();
  // The set whose lock file is needed to take out whom it has lost.
  const std::optional<std::uint64_t>& wanted_file() const { return wanted_file_; }
  void forget_pause(std::uint64_t gap);  // of this agent: what others have said waits to be read

 private:
  // Of a host.
  struct Host {
    explicit Host(link::LeaderTalk with) : talk(std::move(with)) {}
    link::LeaderTalk talk;
    std::optional<Deadline> back_by;  // its connection is closed
    // Its stay that has nearly all records, or had them all along.
    std::optional<coord::Stay> has_records;
    std::optional<link::Promise> promise;
    std::string doubt;  // it says what cannot be true: what
  };
  struct TakenOut {
    coord::Stay stay;
    bool of_set;
  };

  const coord::RunFacts& facts() const { return around_.head.coordinator().facts(); }
  coord::RunLead& run() { return *around_.head.coordinator().leads(); }
  quorum::Agent& agent() const { return around_.quorum.agent(); }
  coord::RunWord word() const { return {.pulses = told_}; }
  // In the head's next turn.
  void later(std::function<void(coord::RunLead&, std::uint64_t now_ns)> what);

  void doubt(std::size_t host, const std::string& what);
  Why lost() const;
  Why cut_off() const;
  void take_back(const Why& lost, const Why& cut_off);
  void want_file(const Why& lost, const Why& cut_off);
  void exclude();
  void lose(std::size_t host, const std::string& why);
  bool write();
  bool follow();

  // hosts_lead_rounds.cpp
  void forget_rounds();
  bool go_on_with_rounds();
  bool begin_rounds();
  bool is_of_set(const coord::HostFacts& host) const;
  bool still_comes(coord::Stay stay) const;
  void deal_fills();
  void tell_round();
  void tell(link::HostIndex host, const link::RoundMessage& message);
  void hear(std::size_t host, const link::RoundMessage& message);
  // Records that a host lacks that comes back: the leader knows whom to ask.
  std::optional<std::size_t> source_for(std::size_t host) const;
  void pass_on(std::size_t from, const link::RecordMessage& message);

  const Around around_;
  const std::uint64_t term_;
  std::vector<Host> hosts_;
  Cuts cuts_;
  std::optional<std::uint64_t> wanted_file_;
  std::set<std::size_t> excluded_;  // hosts that the run's keeper has given up, or will
  std::vector<coord::Pulse> told_;
  std::optional<coord::RunState> state_;  // to be written, or written and not in force
  std::optional<Stamp> written_;          // that

  std::vector<TakenOut> to_take_out_;
  std::optional<link::RoundKeeper> keeper_;
  std::int64_t start_ = -1;  // of the group, that they are of; -1: not yet known
  bool filled_ = true, told_end_ = true;
  bool any_table_ = false;
  std::vector<std::pair<coord::Stay, bool>> going_;  // as those, in the newest round or before it
  std::vector<coord::Stay> to_bring_, coming_;       // the same, once they are in one
  std::size_t source_ = 0;                           // who is asked next
  std::shared_ptr<int> leads_ = std::make_shared<int>();  // as long as there is this object
};

}  // namespace lockstep::launcher
