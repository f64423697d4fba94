// Simulated hosts with their workers, links and agents, and a leader; a network between them; and
// an oracle that looks at each step. No time: each step is one that some actor can make, and actors
// have weights, redrawn now and then, so that single ones starve. One thread; everything random
// comes from one seed.
//
// The rules are the project's own: coord::Ownership, and those of src/link.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "../clock.h"
#include "board.h"
#include "link/host_rounds.h"
#include "link/pair.h"
#include "link/round_keeper.h"
#include "shape.h"

namespace lockstep::simulation {

// One whose rules may be switched off.
std::unique_ptr<link::Pair> planted_pair(coord::Stay self, coord::Stay other, Planted planted);

class Hosts {
 public:
  Hosts(std::uint64_t seed, const Trouble& trouble, bool traced);
  Outcome run();

 private:
  using Item = link::Item;
  using Kind = link::Kind;
  using Stay = coord::Stay;

  // What a worker writes: a piece, or an item of the board.
  struct Write {
    bool piece = false;
    Item item;  // of a piece: bucket, and index of its leaf
    std::uint64_t value = 0;
    std::optional<coord::Table> table;
    bool begun = false;
    std::vector<std::pair<const Cell*, std::uint64_t>> read = {};  // by a sum
  };
  struct Worker {
    WorkerUid uid;
    std::uint32_t host = 0, place = 0;  // among its host's
    bool alive = true, paused = false;
    bool comes = false, has_image = false;  // a newcomer
    int images = 0;                         // that it has had
    std::uint64_t txn = 0, state = 42;
    std::deque<Write> job;
    std::uint64_t idle_at = 0;  // SimBoard::version() when there was nothing to do
  };
  struct Frame {
    enum State { kSending, kFlying, kAside, kLanding };
    State state = kSending;
    std::optional<link::Have> have;  // the first one; else:
    Item item;
    std::uint64_t value = 0;
    coord::Table table;
    std::vector<std::pair<const Cell*, std::uint64_t>> read = {};  // by whoever sends it
  };
  // What a link sends first, of all that it may.
  enum class Taste { kAny, kFirst, kLast };
  // From one host to another.
  struct Direction {
    std::unique_ptr<link::Pair> pair;  // the sender's
    std::deque<Frame> flight;
    std::vector<Frame> aside;  // read, and waiting, or landing from there
    bool blocked = false;
    Taste taste = Taste::kAny;
    std::uint64_t idle_at = 0;  // version of board and pair when there was nothing to send
    std::uint64_t changed = 1;
  };
  struct Host {
    Stay stay;
    bool alive = true, paused = false;
    std::unique_ptr<SimBoard> board;
    std::vector<std::size_t> workers;  // of this stay
    std::uint32_t places = 0;          // that workers have had
    bool knows_dead = true;            // its board has the list of those before it
    // The agent:
    std::unique_ptr<link::HostRounds> rounds;
    std::map<std::uint64_t, std::deque<std::variant<link::Round, link::Fills>>> inbox;  // by term
    std::unique_ptr<link::HostRounds> stale;  // planted: as of before the newest round
    // The link:
    bool link_alive = true, link_paused = false;
    link::Orders told, orders;  // what it has obeyed, and what it makes of that
    std::unique_ptr<link::BoardOwners> owners;
    link::Landings landings;
  };
  // A leader that does not know that it is one no more.
  struct Deposed {
    std::unique_ptr<link::RoundKeeper> keeper;
    link::HostIndex host = 0;
    std::vector<link::HostIndex> in_force;  // as it knows
  };
  using Report = std::variant<link::Answer, link::Appended>;
  struct Actor {
    double weight = 1;
    std::function<bool()> act;  // false: nothing to do
  };

  // hosts.cpp
  void make_hosts();
  Worker& add_worker(std::size_t host, bool comes);
  void make_actors();
  void draw_weights();
  bool step();
  bool someone_acts();
  bool is_through() const;
  void check_end();
  std::string missing(const Worker& worker) const;
  bool quorum(const std::vector<link::HostIndex>& hosts,
              const std::vector<link::HostIndex>& set) const;
  bool live(std::size_t host) const;     // with a member
  bool outside(std::size_t host) const;  // its stay has been in no table
  bool in_set(std::size_t host) const;   // as far as the leader has decided
  std::size_t lively() const;            // hosts of the set that are live
  template <class What>
  void note(const What& what) {
    if (traced_) journal_.push_back(what());
  }
  void see(const char* kind) { ++outcome_.seen[kind]; }

  // members.cpp
  bool work(Worker& worker);
  bool come(Worker& worker);
  bool go_on(Worker& worker);
  void begin(Worker& worker, Write& write);
  void end(Worker& worker, Write& write);
  void apply(Worker& worker);
  bool choose_job(Worker& worker);
  void add_shares(Worker& worker, std::uint32_t me, std::vector<std::deque<Write>>& jobs);
  void add_chunks(Worker& worker, std::uint32_t me, std::vector<std::deque<Write>>& jobs);
  std::deque<Write> share_job(const Worker& worker, std::uint32_t v) const;
  std::optional<std::uint64_t> sum(const Worker& worker, Write& write) const;
  void add_comer(coord::Table& table, std::uint64_t txn, const SimBoard& board);
  coord::Table next_table(const Worker& worker);

  // oracle.cpp
  void begin_write(std::size_t host, const Item& item, const std::string& who);
  void end_write(std::size_t host, const Item& item, std::uint64_t value,
                 const coord::Table* table);
  void check_overwrite(std::size_t host, const Item& item) const;
  void check_value(std::size_t host, const Item& item) const;
  void check_order() const;
  bool counts(std::size_t host) const;  // for impure values
  std::string name(const Item& item) const;

  // wire.cpp
  Direction& way(std::size_t from, std::size_t to) { return ways_[from * hosts_.size() + to]; }
  bool connected(std::size_t a, std::size_t b) { return ends_[a * hosts_.size() + b]; }
  bool send(std::size_t from, std::size_t to);
  bool receive(std::size_t from, std::size_t to);
  bool settle_aside(std::size_t from, std::size_t to);
  void land(std::size_t from, std::size_t to, Frame& frame);
  void landed(std::size_t from, std::size_t to, const Frame& frame);
  bool make(std::size_t a, std::size_t b);
  void close_end(std::size_t at, std::size_t other);
  void lose(std::size_t from, std::size_t to);  // all that is under way
  std::optional<std::uint64_t> coming(std::size_t host) const;
  bool obey(std::size_t index);
  void start_link(std::size_t index);

  // agents.cpp
  bool attend(std::size_t index);
  link::Answer told(std::size_t index, link::Answer answer);
  void report(std::size_t host, Report report);
  void open_stay(std::size_t host, Stay stay);
  bool withdraw(Host& host);
  bool outside_again(std::size_t host, Stay stay) const;
  bool replace_worker(std::size_t host);

  // leaders.cpp
  void step_down();
  bool lead(std::size_t from);
  bool lead_on();
  bool let_join(std::size_t host);
  bool cut_off(std::size_t host) const;
  bool watch();
  bool elect();
  void tell_round(const link::RoundKeeper& leader);
  void fill(link::RoundKeeper& leader, std::vector<link::HostIndex>& in_force);
  std::vector<link::Fills> planned_fills(const link::RoundKeeper& leader) const;
  std::vector<Stay> stays() const;

  // faults.cpp
  bool fault();
  bool fault_of_worker();
  bool fault_of_host();
  bool outruns_table(std::size_t host) const;
  bool fault_of_link();
  bool fault_of_network();
  bool fault_of_leader();
  bool pause();
  void kill_worker(Worker& worker);
  void kill_host(std::size_t host);
  bool recover();  // what heals and wakes by itself

  Trouble trouble_;
  Budget left_;
  const bool traced_;
  Random random_;
  SimPlan plan_;
  Reference reference_;
  std::vector<Host> hosts_;
  std::deque<Worker> workers_;
  std::vector<Direction> ways_;
  std::vector<char> ends_;  // [at][other]: its end of the connection is open
  std::vector<char> cut_;   // for good; symmetric
  std::deque<Actor> actors_;
  std::unique_ptr<link::RoundKeeper> leader_;
  std::vector<Deposed> deposed_;
  std::size_t leader_host_ = 0;
  std::uint64_t term_ = 1;
  link::Stamp newest_in_force_;
  std::vector<link::HostIndex> in_force_;    // the set
  std::vector<Stay> gone_;                   // out of the tables, as the leader knows
  std::vector<Stay> listable_;               // known to all that stay
  std::vector<std::deque<Report>> reports_;  // by host
  std::uint64_t names_ = 0;                  // of impure values
  std::deque<std::string> journal_;
  Outcome outcome_;
};

}  // namespace lockstep::simulation
