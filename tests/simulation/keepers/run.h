// A run on two to five simulated hosts (tests/simulation plays one): the project's own keepers, one
// for each host and one for the run, with a network between them that delays, loses, and repeats
// what may be repeated; boards and workers as plain values; and an oracle. The agent that leads
// dies, or is cut off and does not know that another one leads. Each host has a clock of its own.
// Virtual time, one thread; everything random comes from one seed.
//
// What is simpler than it will be: links copy marks and tables from board to board now and then,
// a round (link/round_keeper.h; tests/simulation/hosts plays those) happens in one moment, and who
// is out of the set ends as soon as that is in force.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../clock.h"
#include "coord/board.h"
#include "coord/membership.h"
#include "coord/ownership.h"
#include "link/agent_talk.h"
#include "quorum/agent.h"

namespace lockstep::simulation {

using coord::Stay;
using coord::Table;

// Of agents.
inline constexpr std::uint64_t kSilence = kSecond, kStagger = 160 * kMillisecond,
                               kBeat = 80 * kMillisecond;

// Mistakes put in on purpose.
enum class Blunder {
  kNone,
  kBudgets,    // who leads next begins them anew
  kOrders,     // forgets orders that are not obeyed
  kRanks,      // has the ranks in another order
  kHeard,      // has heard one report of each host less, and hosts say all again
  kOwnWord,    // a state is in force as soon as it is written
  kOldLeader,  // hosts hear leaders of older terms, which go on
  kIncidents,  // who leads next begins to number incidents anew
  kNoRound,    // a host comes without a round
};

struct Shape {
  std::vector<std::uint32_t> workers;  // of each host
  std::uint32_t virtual_workers = 4;
  std::uint64_t transactions = 12;
  std::uint64_t time_limit = 0;  // nanoseconds; 0: none
  bool strict_hang = true;
};

struct Board {
  std::uint64_t attempt = 0;
  Stay stay;
  std::map<std::uint64_t, Table> tables;
  std::map<std::uint64_t, std::set<std::uint32_t>> marks;  // of shares
  Table proposal;
  std::vector<WorkerUid> dead;
  WorkerUid donor{0};
  std::uint64_t request = 0;
  std::uint64_t copied = 0;  // txn + 1 of the state that lies there for newcomers
  std::uint64_t stop_recorded = 0;
  bool final_recorded = false;

  const Table* table(std::uint64_t txn) const {
    const auto found = tables.find(txn);
    return found == tables.end() ? nullptr : &found->second;
  }
};

struct SimWorker {
  enum class Life { kBooting, kWaits, kLoading, kMember, kDone, kGone };
  WorkerUid uid;
  Slot slot;
  std::shared_ptr<Board> board;
  Life life = Life::kBooting;
  bool newcomer = false, hung = false, said_end = false;
  std::optional<std::uint32_t> computes;
  std::uint64_t txn = 0;                    // that it is in, or will apply
  std::uint64_t handled = 0;                // Board::request
  std::optional<std::uint64_t> done_since;  // with its own shares
  std::uint64_t pause = 0;                  // until it looks again
  coord::WorkerProgress seen;
};

struct Outcome {
  std::string violation, journal;
  std::optional<int> code;
  std::map<std::string, int> seen;
};

class Run;

// Of an agent that leads.
struct Leading {
  std::uint64_t term = 0;
  std::uint64_t excludes_at = 0;         // not before: whoever is silent may be heard again
  std::set<std::size_t> given_up;        // hosts, or will be
  std::vector<link::LeaderTalk> talks;   // by host
  std::optional<coord::RunState> state;  // to be written, or written and not in force
  std::optional<Stamp> written;          // that
  std::vector<coord::Pulse> told;
  int start = 0;                                     // of the group: restarts
  std::vector<std::pair<Stay, bool>> take_out = {};  // rounds that are to begin
  std::vector<Stay> bring = {};
};

// Whose rules may be broken.
class SimAgent : public quorum::Agent {
 public:
  SimAgent(const quorum::Settings& settings, const quorum::Member& self, std::uint64_t now,
           Blunder blunder)
      : Agent(settings, self, now), blunder_(blunder) {}

 protected:
  bool is_known(const quorum::Members& acknowledged) const override {
    return blunder_ == Blunder::kOwnWord || Agent::is_known(acknowledged);
  }
  std::uint64_t leads_for() const override {
    return blunder_ == Blunder::kOldLeader ? quorum::kForever : Agent::leads_for();
  }

 private:
  Blunder blunder_;
};

// An agent with its board and workers.
class SimHost {
 public:
  SimHost(Run& run, std::size_t index, Stay stay);

  void start();
  // The connection with that host is there, or breaks.
  void open(std::size_t with);
  void close(std::size_t with);
  void hear_leader(std::size_t from, const std::string& frame);
  void hear_host(std::size_t from, const std::string& frame);
  void hear(const quorum::Message& message);
  void hear_refusal(const quorum::Member& by);
  void beat();

  bool leads() const { return leading_.has_value() && !is_lost; }
  void lead_turn(const std::function<void(coord::RunLead&)>& what);
  void tell(const link::Round& round);
  const quorum::Agent& agent() const { return agent_; }
  std::uint64_t obeyed() const { return coordinator_.view().obeyed; }
  std::uint64_t now() const;
  void feed(const coord::Event& event);
  void turn(const std::function<coord::Actions(coord::Coordinator&)>& what);
  void tick();
  void poll(const std::shared_ptr<SimWorker>& worker);
  void kill(SimWorker& worker, coord::ExitStatus status);
  void append(const std::vector<Stay>& out);
  void lose();  // machine and all

  std::vector<std::shared_ptr<SimWorker>> alive() const;
  std::vector<std::shared_ptr<SimWorker>> members() const;
  std::shared_ptr<Board> board;
  std::uint64_t checkpoint = 0, stop_file = 0;  // on its disk
  bool is_lost = false;

 private:
  coord::HostPlace place();
  void hear(const link::Round& round);
  coord::RunWord word() const { return {.pulses = leading_->told}; }
  void say_all();
  void serve();
  void follow_leader();
  void carry_out();
  void follow();
  void go_on_leading();
  void forget_rounds();
  void begin_rounds();
  void lead();
  void lead_no_more();
  void exclude(coord::RunLead& run);
  bool write();
  void obey(const coord::Actions& actions);
  coord::event::Progress observe() const;

  template <class What>
  void act(const What& what);  // of the run
  void act(const coord::action::Spawn& spawn);
  void act(const coord::action::Kill& kill);
  void act(const coord::action::AppendDead& dead);
  void act(const coord::action::WriteProposal& proposal) { board->proposal = proposal.wish; }
  void act(const coord::action::WriteTable& first);
  void act(const coord::action::RecordStop& record);
  void act(const coord::action::NameDonor& donor);
  void act(const coord::action::Admit& admit);
  void act(const coord::action::Refuse&) { require(false, "a worker that fits is refused"); }
  void act(const coord::action::RestartGroup& restart);
  void act(const coord::action::SetFinalRecorded&);

  // A worker's life (worker.cpp)
  void wait_for_copy(SimWorker& worker);
  void load(SimWorker& worker);
  void compute(const std::shared_ptr<SimWorker>& worker);
  void go_on(const std::shared_ptr<SimWorker>& worker, const Table& table,
             const coord::Ownership& own, std::uint32_t self);
  void publish(SimWorker& worker, const Table& table);
  bool joiner_missing(const SimWorker& worker, const Table& table) const;
  void apply(const std::shared_ptr<SimWorker>& worker, const Table& next);
  void end(const std::shared_ptr<SimWorker>& worker);
  void leave(const std::shared_ptr<SimWorker>& worker);
  std::uint64_t last(const Table& table) const;
  void after(const std::shared_ptr<SimWorker>& worker, std::uint64_t delay,
             void (SimHost::*what)(const std::shared_ptr<SimWorker>&));

  Run& run_;
  std::size_t index_;
  coord::Coordinator coordinator_;
  std::map<WorkerUid, std::shared_ptr<SimWorker>> workers_;
  link::HostTalk talk_;
  SimAgent agent_;
  std::optional<std::size_t> leader_;
  std::uint64_t leads_in_ = 0;  // that term
  Stamp carrying_out_, followed_;
  std::string followed_run_;
  std::uint64_t since_ = 0;  // it has had the newest run
  std::string newest_run_;
  std::tuple<std::uint64_t, quorum::Role, std::optional<quorum::Member>,
             std::optional<quorum::Member>, Stamp, Stamp>
      said_;
  bool serves_ = false;
  std::optional<Leading> leading_;
  bool in_turn_ = false;
};

class Run {
 public:
  Run(std::uint64_t seed, Blunder blunder, bool traced);
  Outcome play();

  // For hosts.
  template <class What>
  void act(const What&) {}
  void act(const coord::action::Print& print);
  void act(const coord::action::RecordIncident& record);
  void act(const coord::action::Reply& reply);
  void act(const coord::action::Stop& stop);
  void take_out(std::size_t leader, Stay stay, bool of_set);
  void bring(std::size_t leader, Stay stay);
  void begin_round(std::size_t leader);
  void forget_rounds();  // that the newest leader has begun
  void say_come(const std::vector<Stay>& stays);
  void answer(std::size_t leader, const link::Answer& answer);
  // A leader's state is in force.
  void know(const coord::RunState& state);
  void lose(std::size_t host);
  void say(std::size_t from, std::size_t to, const quorum::Message& message);
  bool has_connection(std::size_t one, std::size_t other) const;
  void written();  // by the leader: now it may be lost
  void loads();    // a newcomer: now all others may be
  const Blunder blunder;
  Clock clock;
  Random random;
  Shape shape;
  coord::Config config;
  std::vector<std::unique_ptr<SimHost>> hosts;
  std::set<WorkerUid> uids;                                          // ever
  std::optional<std::pair<std::uint64_t, std::uint32_t>> bad_share;  // crashes its owners
  void note(const std::string& text);
  void see(const char* what) { ++outcome_.seen[what]; }
  // On the connection between two hosts: it arrives, later, if that still is there.
  void send(std::size_t from, std::size_t to, bool to_leader, const std::string& frame);
  void check_table(const Board& board, const Table& table);
  void check_return(const Board& old) const;  // it gives way to a board of another stay
  bool is_over() const { return outcome_.code.has_value(); }
  std::shared_ptr<SimWorker> find(WorkerUid uid) const;
  void progressed() { progressed_at_ = clock.now(); }
  std::uint64_t quiet() const { return clock.now() - progressed_at_; }

 private:
  // Between two hosts.
  struct Connection {
    bool is_up = false;
    std::uint64_t number = 0;           // of the one that is, or was last
    std::uint64_t arrives[2] = {0, 0};  // the last frame, to the lower host and to the other
  };
  void draw();
  Connection& between(std::size_t one, std::size_t other);
  void connect(std::size_t one, std::size_t other);
  void disconnect(std::size_t one, std::size_t other);
  void breaks();
  std::optional<std::size_t> leader() const;
  const coord::RunFacts& facts() const { return known_.facts; }
  void beat();
  void links();
  void end_round();
  void fault();
  void fault_of_worker();
  void fault_of_members();
  void stop();
  void fault_of_leader();
  bool can_lose(std::size_t host) const;
  void end_hang(SimWorker& worker);
  void fault_of_host();
  void check_ranks(const Table& before, const Table& table) const;
  void check_facts() const;
  void check_charges() const;
  void check_history(const coord::RunState& state) const;
  void check_orders(const coord::RunState& state) const;
  void check_end(int code);
  std::string picture() const;

  bool traced_;
  Outcome outcome_;
  std::deque<std::string> journal_;
  std::map<std::pair<std::size_t, std::size_t>, Connection> connections_;
  std::size_t round_leader_ = 0;   // of the newest round
  std::set<std::size_t> cut_off_;  // was leader, and has no connection
  coord::RunState known_;          // in force
  bool formed_ = false;
  std::map<WorkerUid, std::uint64_t> victims_;  // and the incident
  std::set<WorkerUid> kept_;                    // by order::Keep
  std::set<WorkerUid> signalled_;               // who leaves for it may yet die of something else
  std::map<Stay, bool> going_;    // in the newest round: of the set, or of the tables alone
  std::set<Stay> out_;            // after it
  std::set<Stay> coming_, come_;  // the same
  std::uint64_t round_ = 0;
  std::set<link::HostIndex> answered_;  // of those that stay, that round
  int faults_ = 0, left_ = 0, hosts_to_lose_ = 0, leaders_to_lose_ = 0;
  int deaths_ = 0;  // that came from faults
  bool stopped_ = false;
  std::uint64_t requests_ = 0;
  std::uint64_t progressed_at_ = 0;
};

template <class What>
void SimHost::act(const What& what) {
  run_.act(what);
}

Outcome play_keepers(std::uint64_t seed, Blunder blunder = Blunder::kNone, bool traced = false);

}  // namespace lockstep::simulation
