// What a linked program's run on several hosts has beside its workers: the agents' connections, who
// of them leads, this host's link, and what the leader and it say to each other.
//
//   mesh.h  the connections         quorum_talk.h  who leads, what is in force
//   host_link.h  the link, rounds   hosts_lead.h   what the agent has that leads
//   hosts_head.h  who decides about this host's workers
//   tie_break.h  the lock file by which one of two hosts goes on
//
// A frame between two agents: u8 to whom (To) | its bytes.
//
// Ownership: what is in Around outlives it. Threads: the loop's. Errors: open()'s; later ones end
// the run through the head.
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

#include "base/deadline.h"
#include "base/loop.h"
#include "control/knock.h"
#include "control/timers.h"
#include "coord/board.h"
#include "launcher/hosts/host_link.h"
#include "launcher/hosts/hosts_head.h"
#include "launcher/hosts/hosts_lead.h"
#include "launcher/hosts/mesh.h"
#include "launcher/hosts/quorum_talk.h"
#include "launcher/hosts/records_copy.h"
#include "launcher/hosts/tie_break.h"
#include "launcher/linked/records.h"
#include "launcher/options/options.h"
#include "launcher/processes/process.h"
#include "link/agent_talk.h"
#include "lockstep/status.h"
#include "rundir/lock.h"

namespace lockstep::launcher {

class HostsRun {
 public:
  struct Around {
    const LaunchOptions& options;
    Loop& loop;
    std::function<void()> look;  // the head has news to look at: feeds a tick
    std::function<int()> board_fd;
    std::function<coord::Board()> board;  // mapped whole
    std::function<Records&()> records;
    std::function<std::string()> run_dir;  // once a worker has described the run
    // Of a board that has come into the tables, from this transaction on.
    std::function<void(Txn next, std::uint64_t ran_ns)> begin_records;
  };
  explicit HostsRun(Around around);
  ~HostsRun();
  HostsRun(const HostsRun&) = delete;
  HostsRun& operator=(const HostsRun&) = delete;

  // Once, before open().
  std::unique_ptr<coord::Head> make_head(const coord::Config& config);
  // Meets the others, or begins to try.
  Status open();

  // After each turn of the head. True: it has something new to look at.
  bool go_on();
  void renew_board();  // another one has taken its place
  // True: the event was of the link's process.
  bool event(const ChildEvent& event) { return link_ && link_->event(event); }
  bool keeps(pid_t child) const { return link_ && link_->keeps(child); }
  int self() const { return static_cast<int>(mesh_->self()); }
  rundir::NodeOfRun node() const;  // once all have met, as self()
  // The run has ended: says goodbye to all, and waits, 1 s at most, until they have it.
  void leave();

 private:
  enum class To : char { kAgent, kLeader, kHost };

  std::chrono::milliseconds limit() const;  // the leader's, once all have met
  quorum::Settings settings() const;
  Mesh::Events mesh_events();
  void form();
  void opened(std::size_t host);
  void closed(std::size_t host);
  void say(std::size_t host, To to, const std::string& bytes);
  void hear(std::size_t host, const std::string& frame);
  void hear_leader(const std::string& bytes);
  void report(const coord::HostView& view, const coord::Report& report);
  void begin_records(Txn next);
  void beat();
  void wake();
  void forget_own_pause();
  std::chrono::milliseconds every() const;  // between two heartbeats

  // hosts_run_leader.cpp: who leads, and what follows from it.
  void form_set();
  bool follow_quorum();
  void look_who_leads();
  void follow_leader();
  bool follow_state();
  void tell_who_is_lost(const coord::RunFacts& facts);
  void take_up_lead();
  void knock_at(std::size_t host);
  void tell_who_comes();
  bool end_if_due();
  void tell_who_may_not_know() const;
  void lose_quorum();

  // hosts_run_tie.cpp: the lock file.
  Status open_tie_break();
  void tell_who_goes_on() const;
  void compare_directories();
  void ask_for_file();
  bool asks_no_more(std::size_t host) const;
  bool is_denied() const;
  std::optional<std::uint64_t> unneeded_file() const;
  bool is_self(std::size_t host) const { return host == mesh_->self(); }
  const coord::RunFacts& facts() const { return head_->coordinator().facts(); }

  const Around around_;
  HostsHead* head_ = nullptr;
  std::unique_ptr<control::Timers> timers_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<HostLink> link_;
  std::unique_ptr<QuorumTalk> quorum_;  // once all have met
  std::optional<link::HostTalk> talk_;  // the same
  std::unique_ptr<HostsLead> lead_;     // as long as this agent leads
  std::optional<RecordsCopy> records_copy_;
  std::unique_ptr<TieBreak> tie_break_;  // where it is asked for
  struct LockFile {
    std::uint64_t set = 0;
    std::size_t other = 0;  // of the two
    bool is_own = false;
  };
  LockFile file_;  // that was asked for last
  Deadline all_here_by_, tell_missing_at_;

  // Whom this host follows, and since which term.
  std::optional<std::size_t> leader_;
  std::uint64_t leads_in_ = 0;
  quorum::SharedFacts known_;  // the newest, in force or not; and since when the run's state is
  std::uint64_t run_at_ = 0;
  Stamp followed_;                // in force
  coord::RunClock::Known clock_;  // as of then
  std::uint64_t clock_at_ = 0;
  std::map<std::size_t, std::unique_ptr<control::Knock>> knocks_;  // at hosts that have closed
  std::set<std::size_t> ended_;  // hosts whose launchers have ended, as is known
  std::set<std::size_t> lost_;   // as the run's state has it

  std::uint64_t beat_at_ = 0;  // the last one, or the end of a pause behind it
  Deadline next_seen_;
  std::uint64_t said_obeyed_ = 0;
  std::size_t said_workers_ = 0;
  control::Timers::Timer beat_, wake_;
};

}  // namespace lockstep::launcher
