// The run: its keeper at the leader, the network, links and rounds.
#include "run.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::simulation {

namespace action = coord::action;
using coord::Standing;

Run::Run(std::uint64_t seed, Blunder mistake, bool traced)
    : blunder(mistake), random(seed), traced_(traced) {
  draw();
  known_ = coord::first_state(shape.workers, clock.now());
  for (std::size_t h = 0; h < shape.workers.size(); ++h) {
    hosts.push_back(std::make_unique<SimHost>(*this, h, known_.facts.hosts[h].stay));
    // Some have an older checkpoint than the others.
    hosts.back()->checkpoint = random.chance(0.1) ? 3 : 0;
  }
}

void Run::draw() {
  const std::uint64_t count = random.between(2, 5);
  for (std::uint64_t h = 0; h < count; ++h)
    shape.workers.push_back(
        static_cast<std::uint32_t>(random.chance(0.4) ? 1 : random.between(1, 3)));
  std::uint32_t all = 0;
  for (const std::uint32_t workers : shape.workers) all += workers;
  shape.virtual_workers = all + static_cast<std::uint32_t>(random.between(0, 6));
  if (random.chance(0.15)) shape.time_limit = random.between(50, 400) * kMillisecond;
  config.zygote = false;
  config.workers = all;
  config.max_restarts = static_cast<int>(random.between(0, 3));
  config.max_replacements = random.chance(0.2) ? static_cast<int>(random.between(0, 2)) : 10;
  config.timing.signal_wait = 50 * kMillisecond;
  config.give_back_after = 1'000'000;
  if (random.chance(0.8)) config.timing.strict_hang = 3 * kSecond;
  left_ = static_cast<int>(random.chance(0.1) ? 0 : random.between(1, 8));
  hosts_to_lose_ = random.chance(0.4) ? static_cast<int>(random.between(1, 2)) : 0;
  leaders_to_lose_ = random.chance(0.5) ? static_cast<int>(random.between(1, 3)) : 0;
  // An election takes longer than many a step.
  shape.transactions = leaders_to_lose_ > 0 ? random.between(20, 60) : random.between(8, 25);
  if (random.chance(0.05))
    bad_share = {random.between(1, shape.transactions - 1),
                 static_cast<std::uint32_t>(random.between(0, shape.virtual_workers - 1))};
}

void Run::note(const std::string& text) {
  if (!traced_) return;
  journal_.push_back(std::to_string(clock.now() / kMicrosecond) + " us: " + text);
  if (journal_.size() > 400) journal_.erase(journal_.begin() + 100);  // the first ones stay
}

Run::Connection& Run::between(std::size_t one, std::size_t other) {
  return connections_[std::minmax(one, other)];
}

bool Run::has_connection(std::size_t one, std::size_t other) const {
  if (one == other) return true;
  const auto found = connections_.find(std::minmax(one, other));
  return found != connections_.end() && found->second.is_up;
}

// In order: what is sent later comes later.
void Run::send(std::size_t from, std::size_t to, bool to_leader, const std::string& frame) {
  require(has_connection(from, to), "something is said without a connection");
  Connection& connection = between(from, to);
  std::uint64_t delay = random.between(50 * kMicrosecond, 3 * kMillisecond);
  if (random.chance(0.01)) delay = random.between(50, 400) * kMillisecond;
  if (from == to) delay = kMicrosecond;
  std::uint64_t& arrives = connection.arrives[to > from || to_leader ? 1 : 0];
  arrives = std::max(arrives + 1, clock.now() + delay);
  clock.after(arrives - clock.now(), [this, from, to, to_leader, frame, of = connection.number] {
    if (is_over() || !has_connection(from, to) || between(from, to).number != of) return;
    if (hosts[to]->is_lost || hosts[from]->is_lost) return;
    to_leader ? hosts[to]->hear_host(from, frame) : hosts[to]->hear_leader(from, frame);
  });
}

void Run::connect(std::size_t one, std::size_t other) {
  if (is_over() || hosts[one]->is_lost || hosts[other]->is_lost) return;
  if (has_connection(one, other) || cut_off_.contains(one) || cut_off_.contains(other)) return;
  between(one, other).is_up = true;
  ++between(one, other).number;
  hosts[one]->open(other);
  hosts[other]->open(one);
}

void Run::disconnect(std::size_t one, std::size_t other) {
  if (!has_connection(one, other)) return;
  between(one, other).is_up = false;
  hosts[one]->close(other);
  hosts[other]->close(one);
}

// What is under way is lost, either way.
void Run::breaks() {
  if (is_over()) return;
  const std::size_t one = random.between(0, hosts.size() - 1);
  const std::size_t other =
      random.chance(0.5) ? leader().value_or(0) : random.between(0, hosts.size() - 1);
  if (one != other && has_connection(one, other)) {
    see("breaks");
    note("the connection of hosts " + std::to_string(one) + " and " + std::to_string(other) +
         " breaks");
    disconnect(one, other);
    const std::uint64_t most = random.chance(0.1) ? 900 * kMillisecond : 30 * kMillisecond;
    clock.after(random.between(kMillisecond, most), [this, one, other] { connect(one, other); });
  }
  clock.after(random.between(5, quiet() > 10 * kSecond ? 20'000 : 500) * kMillisecond,
              [this] { breaks(); });
}

void Run::say(std::size_t from, std::size_t to, const quorum::Message& message) {
  Connection& connection = between(from, to);
  std::uint64_t& arrives = connection.arrives[to > from ? 1 : 0];
  arrives =
      std::max(arrives + 1, clock.now() + random.between(50 * kMicrosecond, 3 * kMillisecond));
  clock.after(arrives - clock.now(), [this, from, to, message, of = connection.number] {
    if (is_over() || !has_connection(from, to) || between(from, to).number != of) return;
    if (!hosts[to]->is_lost && !hosts[from]->is_lost) hosts[to]->hear(message);
  });
}

std::optional<std::size_t> Run::leader() const {
  std::optional<std::size_t> newest;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    if (hosts[h]->leads() && (!newest || hosts[h]->agent().term() > hosts[*newest]->agent().term()))
      newest = h;
  return newest;
}

// Whoever is out of the set ends.
void Run::know(const coord::RunState& state) {
  check_history(state);
  if (!std::exchange(formed_, true))
    clock.after(random.between(100, 400) * kMillisecond, [this] { fault(); });
  known_ = state;
  for (const coord::GivenOrder& given : state.orders)
    if (const auto* keep = std::get_if<coord::order::Keep>(&given.order)) kept_.insert(keep->uid);
  check_facts();
  check_charges();
  for (std::size_t h = 0; h < hosts.size(); ++h)
    if (facts().hosts[h].standing == Standing::kOut && !hosts[h]->is_lost) lose(h);
}

void Run::act(const action::Print& print) {
  const bool late = print.text.find(": not ended") != std::string::npos;
  require(!late || (outcome_.seen.contains("hangs") && config.timing.strict_hang == 0),
          "members that are to leave wait in vain");
  if (print.text.find("the run stops without") != std::string::npos) see("stops without a step");
  if (print.text.find("replacement is started") != std::string::npos) see("replacements");
  if (print.text.find("has no worker left") != std::string::npos) see("hosts out of the tables");
  if (print.text.find("to all workers") != std::string::npos) see("stops by workers' signals");
}

void Run::act(const action::RecordIncident& record) {
  for (const coord::Victim& victim : record.incident.victims)
    require(signalled_.contains(victim.uid) ||
                victims_.emplace(victim.uid, record.incident.number).first->second ==
                    record.incident.number,
            "a death is in two incidents");
}

void Run::act(const action::Reply& reply) { see(reply.ok ? "scales" : "refused scales"); }

// The others' ends follow.
void Run::act(const action::Stop& stop) {
  if (is_over()) return;
  check_end(stop.exit_code);
  outcome_.code = stop.exit_code;
}

// Heard or not; the last ones count.
void Run::beat() {
  if (is_over()) return;
  for (const auto& host : hosts) host->beat();
  clock.after(kBeat, [this] { beat(); });
}

// From one board to another.
void Run::links() {
  if (is_over()) return;
  for (const auto& from : hosts)
    for (const auto& to : hosts) {
      const Board &a = *from->board, &b = *to->board;
      if (from == to || from->is_lost || to->is_lost || a.attempt != b.attempt ||
          out_.contains(a.stay) || out_.contains(b.stay) || random.chance(0.5))
        continue;
      for (const auto& [txn, marks] : a.marks)
        if (std::set<std::uint32_t>& there = to->board->marks[txn];
            there.size() < shape.virtual_workers)
          there.insert(marks.begin(), marks.end());
      to->board->tables.insert(a.tables.begin(), a.tables.end());
    }
  clock.after(random.between(200 * kMicrosecond, (quiet() > kSecond ? 100 : 3) * kMillisecond),
              [this] { links(); });
}

// A new round takes the place of one that is not over.
void Run::take_out(std::size_t leader, Stay stay, bool of_set) {
  see("rounds");
  going_[stay] = going_[stay] || of_set;
  begin_round(leader);
}

void Run::bring(std::size_t leader, Stay stay) {
  see("rounds by which hosts come");
  if (blunder == Blunder::kNoRound)
    return clock.after(kMillisecond, [this, leader, stay] {
      round_leader_ = leader;
      if (!is_over()) say_come({stay});
    });
  coming_.insert(stay);
  begin_round(leader);
}

void Run::forget_rounds() {
  ++round_;
  going_.clear();
  coming_.clear();
}

void Run::say_come(const std::vector<Stay>& stays) {
  SimHost& leads = *hosts[round_leader_];
  leads.lead_turn([&](coord::RunLead& run) { run.have_come(stays, leads.now()); });
}

void Run::begin_round(std::size_t leader) {
  round_leader_ = leader;
  answered_.clear();
  link::Round round{.stamp = {1, ++round_}, .set = {}, .out = {}, .table = {}};
  for (std::size_t h = 0; h < hosts.size(); ++h)
    if (facts().hosts[h].standing != Standing::kOut)
      round.set.push_back(static_cast<link::HostIndex>(h));
  hosts[leader]->tell(round);
}

void Run::answer(std::size_t leader, const link::Answer& answer) {
  if (answer.stamp.seq != round_ || leader != round_leader_) return;
  answered_.insert(answer.host);
  for (std::size_t h = 0; h < hosts.size(); ++h)
    if (facts().hosts[h].standing != Standing::kOut &&
        !answered_.contains(static_cast<link::HostIndex>(h)))
      return;
  clock.after(random.between(kMillisecond, 20 * kMillisecond), [this, round = round_] {
    if (is_over() || round != round_) return;
    const std::vector<Stay> come(coming_.begin(), coming_.end());
    come_.insert(come.begin(), come.end());
    coming_.clear();
    if (!going_.empty()) end_round();
    if (!come.empty()) say_come(come);
  });
}

// All that stay are filled, and append those that go, in one moment.
void Run::end_round() {
  const std::uint64_t attempt = hosts[round_leader_]->board->attempt;
  std::map<std::uint64_t, std::set<std::uint32_t>> marks;
  std::map<std::uint64_t, Table> tables;
  std::vector<SimHost*> stay;
  for (const auto& host : hosts)
    if (!host->is_lost && host->board->attempt == attempt && !out_.contains(host->board->stay))
      stay.push_back(host.get());
  for (const SimHost* host : stay) {
    for (const auto& [txn, some] : host->board->marks) marks[txn].insert(some.begin(), some.end());
    tables.insert(host->board->tables.begin(), host->board->tables.end());
  }
  for (SimHost* host : stay) {
    host->board->marks = marks;
    host->board->tables = tables;
    std::vector<Stay> out;
    for (const auto& [gone, of_set] : going_)
      if (!coord::is_dead(host->board->dead, coord::death_of(gone))) out.push_back(gone);
    host->append(out);
  }
  for (const auto& [gone, of_set] : going_) out_.insert(gone);
  note("a round is over");
  clock.after(random.between(kMillisecond, 10 * kMillisecond), [this, round = round_,
                                                                any_table = !tables.empty()] {
    if (is_over() || round != round_) return;
    const std::vector<std::pair<Stay, bool>> gone(going_.begin(), going_.end());
    going_.clear();
    SimHost& leads = *hosts[round_leader_];
    leads.lead_turn([&](coord::RunLead& run) { run.taken_out(gone, any_table, leads.now()); });
  });
}

Outcome Run::play() {
  try {
    for (const auto& host : hosts) host->start();
    for (std::size_t h = 0; h < hosts.size(); ++h)
      for (std::size_t other = 0; other < h; ++other) connect(h, other);
    beat();
    links();
    breaks();
    if (random.chance(0.3))
      clock.after(random.between(0, 15 * kMillisecond), [this] { fault_of_host(); });
    while (!is_over() && clock.step())
      require(clock.now() < 6 * 3600 * kSecond, "the run neither ends nor gets on");
    require(is_over(), "nothing happens any more");
  } catch (const Violation& broken) {
    outcome_.violation = broken.what() + picture();
  }
  for (const std::string& line : journal_) outcome_.journal += line + "\n";
  return outcome_;
}

std::shared_ptr<SimWorker> Run::find(WorkerUid uid) const {
  for (const auto& worker : hosts[coord::stay_of(uid).host]->alive())
    if (worker->uid == uid) return worker;
  return nullptr;
}

Outcome play_keepers(std::uint64_t seed, Blunder blunder, bool traced) {
  return Run(seed, blunder, traced).play();
}

}  // namespace lockstep::simulation
