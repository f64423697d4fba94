// The simulated agent: feeds the coordinator and obeys it, as src/launcher does, in virtual time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coord/hang_watch.h"
#include "coord/membership.h"
#include "simulation/schedule.h"
#include "simulation/sim_worker.h"

namespace lockstep::simulation {

struct AgentOptions {
  coord::Config config;
  BoardSizes sizes;
  std::uint64_t slowest_message = kMillisecond;
  std::uint64_t tick = 10 * kMillisecond;
  bool idles = false;  // looks seldom where nothing is committed for long
  void start_by_hand() {
    config.attached = true;
    config.timing.first_table = 300 * kSecond;
    config.zygote = false;
    config.max_restarts = config.max_replacements = 0;
  }
};

class SimAgent {
 public:
  SimAgent(Host& host, const AgentOptions& options);

  void start();
  void signal(int number) { feed(coord::event::Signal{number}); }
  void scale(std::uint32_t workers) { feed(coord::event::Scale{++requests_, workers}); }
  void kill_zygote();
  void refuse_spawns(int count) { refuse_spawns_ += count; }  // of replacements
  void tell(const coord::Event& event) { feed(event); }

  std::vector<SimWorker*> alive() const;
  std::vector<SimWorker*> stopped_alone() const;  // none while somebody runs who holds the state
  void sum_up(Outcome& outcome) const;
  // The current table's members alive, if the next table is out and lists somebody else too;
  // otherwise none.
  std::vector<SimWorker*> members_before_newcomer();
  std::optional<int> exit_code() const { return exit_code_; }
  const std::map<std::uint64_t, coord::Incident>& incidents() const { return incidents_; }
  const coord::Coordinator& coordinator() const { return coordinator_; }
  int spawned() const { return spawned_; }
  std::size_t ended() const { return graveyard_.size(); }  // workers
  bool time_is_up() const { return (board_->proposal.flags & coord::kTimeIsUp) != 0; }
  bool repeated() const { return repeated_; }  // a recorded stop, on another board
  // A group without anyone who holds the state: only then may a run end early.
  bool lost_everybody() const { return lost_everybody_; }
  bool finished() const { return board_->final_recorded; }
  bool stopped_by_workers() const { return stopped_by_workers_; }  // all had a signal
  bool lost_at_start() const { return lost_at_start_; }  // a worker died before the first table
  std::size_t failed_starts() const;                     // workers that died before they were ready
  std::string picture() const;                           // of the board and the workers
  std::string report() const;                            // the last actions, and the picture
  std::vector<std::string> journal;                      // for the report of a failure

 private:
  void feed(const coord::Event& event);
  void tick();
  coord::event::Progress observe(WorkerUid just_dead) const;
  void check_eviction(const SimWorker& evicted);
  coord::event::Vitals look_at_vitals();
  void deliver(WorkerUid uid);
  void reap(WorkerUid uid, coord::ExitStatus status);
  void ring_all();
  void note_holders();
  void check_signals();
  void start_board();
  SimWorker* find(WorkerUid uid);
  bool lists_dead_below(Slot slot) const;

  void act(const coord::action::Spawn& spawn);
  void fork(const coord::action::Spawn& spawn, const std::shared_ptr<SimBoard>& board);
  void open_place(const coord::action::Spawn& place);
  void act(const coord::action::Kill& kill);
  void act(const coord::action::End& end);
  void act(const coord::action::AppendDead& dead);
  void act(const coord::action::WriteProposal& proposal);
  void act(const coord::action::WriteTable& table);
  void act(const coord::action::NameDonor& donor);
  void act(const coord::action::Admit& admit);
  void act(const coord::action::Refuse& refuse);
  void act(const coord::action::RecordIncident& record);
  void act(const coord::action::RestartGroup& restart);
  void act(const coord::action::RestartZygote&);
  void act(const coord::action::RecordStop& record);
  void act(const coord::action::SetFinalRecorded& final);
  void act(const coord::action::Reply& reply) { replies_ok_ += reply.ok ? 1 : 0; }
  void act(const coord::action::RecordStandstills&) {}
  void act(const coord::action::Print&) {}
  void act(const coord::action::Stop& stop);

  Host& host_;
  AgentOptions options_;
  coord::Coordinator coordinator_;
  std::shared_ptr<SimBoard> board_;
  std::map<WorkerUid, std::unique_ptr<SimWorker>> workers_;
  std::set<WorkerUid> ready_;                          // who has ever been
  std::vector<std::unique_ptr<SimWorker>> graveyard_;  // the clock may still hold their names
  std::map<WorkerUid, std::deque<coord::Event>> mail_;
  std::set<WorkerUid> places_;  // attached: open
  std::set<WorkerUid> killed_;  // by us: of others' ends nobody tells
  std::map<std::uint64_t, coord::Incident> incidents_;
  std::optional<int> exit_code_;
  std::uint64_t requests_ = 0, zygote_ = 0;
  bool repeated_ = false, stopped_by_workers_ = false;
  bool zygote_ready_ = false, lost_everybody_ = false, lost_at_start_ = false;
  int refuse_spawns_ = 0;
  int spawned_ = 0, restarts_ = 0, replies_ok_ = 0;
  std::uint64_t crowded_ = 0, held_back_ = 0, hung_evicted_ = 0, slow_evicted_ = 0;
  std::uint64_t last_look_ = 0;
  std::map<WorkerUid, coord::WorkerVitals> vitals_;
};

}  // namespace lockstep::simulation
