// A run's first table of each start, and its proposals.
#include <algorithm>
#include <utility>

#include "coord/run_keeper.h"
#include "coord/words.h"

namespace lockstep::coord {

bool RunKeeper::anybody_has_come() const {
  return hosts_.any([](const WorkerView& worker) { return worker.stage > Stage::kSpawning; });
}

std::string RunKeeper::missing_ranks() const {
  if (!config_.attached) return "";
  std::string ranks;
  hosts_.each([&](const WorkerView& worker) {
    if (worker.stage == Stage::kSpawning)
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(worker.seat);
  });
  if (ranks.empty()) return "";
  return ": of " + std::to_string(facts_.asked()) + " nobody has come as rank " + ranks +
         ". Start each rank with the same address and number of ranks";
}

// Who of a host is to be in the first table. A place for a rank that is started by hand and has not
// come is not needed where nothing is left to run: the others of its run may have ended long ago.
std::vector<const WorkerView*> RunKeeper::at_start(std::size_t host) const {
  const HostView& view = hosts_[host].view;
  const bool complete = view.any([](const WorkerView& worker) { return worker.complete; });
  std::vector<const WorkerView*> found;
  for (const WorkerView& worker : view.workers) {
    const bool is_not_needed = config_.attached && worker.stage == Stage::kSpawning && complete;
    if (!worker.dismissed && !is_not_needed) found.push_back(&worker);
  }
  return found;
}

bool RunKeeper::agree(const WorkerView& first, const WorkerView& other) {
  const std::string one = worker_name(first.seat, first.uid.value());
  const std::string another = worker_name(other.seat, other.uid.value());
  std::string difference;
  if (other.next != first.next)
    difference = one + " is ready for transaction " + std::to_string(first.next.value()) + ", " +
                 another + " for " + std::to_string(other.next.value()) +
                 ": they loaded different checkpoints";
  else if (other.state_hash != first.state_hash)
    difference = one + " and " + another +
                 " start from different states (weights, optimizer state with its learning rate, "
                 "texts): nothing in it may depend on the rank";
  else if (other.time != first.time)
    difference = one + " and " + another +
                 " start with different time limits, or with different words of when an earlier "
                 "one was reached: give all ranks the same options, and start again";
  // As where descriptions or steps differ.
  if (!difference.empty()) stop_now(exit_code(ErrorKind::kUsage), difference);
  return difference.empty();
}

// Who is to be in the first table. None: somebody is not ready, or they do not fit together.
std::optional<RunKeeper::Seats> RunKeeper::seats() {
  Seats seats(hosts_.size());
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const HostFacts& facts = facts_.hosts[h];
    if (facts.standing == Standing::kOut || facts.target == 0) continue;
    const std::uint32_t active = hosts_[h].view.active();
    if (!hosts_[h].is_current() || active == 0 || active < facts.target) return {};
    seats[h] = at_start(h);
    for (const WorkerView* worker : seats[h])
      if (worker->stage != Stage::kReady || !agree(*seats[h][0], *worker)) return {};
    std::sort(seats[h].begin(), seats[h].end(),
              [](const WorkerView* a, const WorkerView* b) { return a->seat < b->seat; });
  }
  return seats;
}

// Hosts whose workers have an older state than others come in later, with a copy; and so do those
// that are to have no workers for now.
void RunKeeper::leave_behind(Seats& seats) {
  std::optional<Txn> newest;
  for (const auto& seated : seats)
    if (!seated.empty()) newest = std::max(newest.value_or(Txn()), seated[0]->next);
  if (!newest) return;
  for (std::size_t h = 0; h < seats.size(); ++h) {
    if (seats[h].empty()) {
      if (facts_.hosts[h].standing == Standing::kForming) leave_behind(h);
      continue;
    }
    if (seats[h][0]->next == *newest) continue;
    const Txn next = seats[h][0]->next;
    seats[h].clear();
    turn_.print(action::Severity::kWarning,
                "node " + std::to_string(h) + " has an older state than the others (transaction " +
                    std::to_string(next.value()) + ", not " + std::to_string(newest->value()) +
                    "): it comes in later, with a copy of theirs");
    leave_behind(h);
  }
}

void RunKeeper::leave_behind(std::size_t host) {
  close(host);
  hosts_[host].off_tables = true;  // no table has it
}

// How they all begin, but for who they are. None: nobody does. What one has recorded of a time
// limit's last step is in force for all, and the time is that of whoever has run longest: each has
// it by its own clock.
std::optional<WorkerView> RunKeeper::start_of(const Seats& seats) {
  std::optional<WorkerView> start;
  std::uint64_t stop = 0, ran = 0;
  for (const auto& seated : seats) {
    if (seated.empty()) continue;
    if (!start) start = *seated.front();
    stop = std::max(stop, seated.front()->time.stop_after_step);
    ran = std::max(ran, seated.front()->time.ran);
  }
  if (start) start->time.stop_after_step = stop, start->time.ran = ran;
  return start;
}

void RunKeeper::write_first_table() {
  std::optional<Seats> seats = this->seats();
  if (!seats) return;
  leave_behind(*seats);
  const std::optional<WorkerView> start = start_of(*seats);
  if (!start) return;
  const std::uint64_t stop = start->time.stop_after_step;
  Table table{start->next, Generation(++generation_), kNone, {}, stop};
  for (std::size_t h = 0; h < seats->size(); ++h) {
    const auto& seated = (*seats)[h];
    if (seated.empty()) continue;
    WorkerView first = *seated.front();
    hosts_[h].stop_known = std::exchange(first.time.stop_after_step, stop);
    first.time.ran = start->time.ran;
    if (!agree(*start, first)) return;
    hosts_[h].ranks.clear();
    for (const WorkerView* worker : seated) hosts_[h].ranks.push_back(worker->uid);
    add(table, h, [](const WorkerView&) { return true; });
  }
  facts_.group = Group::kRunning;
  tell_policy();
  applied_ = table.txn.value();
  furthest_ = std::max(furthest_, applied_);
  proposal_ = table;
  clock_.begin(start->time, turn_.now);
  tell_first(table);
}

void RunKeeper::tell_first(const Table& table) {
  first_txn_ = table.txn.value();
  const order::FirstTable order{table, clock_.ran(turn_.now)};
  std::vector<HostIndex> hosts;
  for (const Host& host : table.hosts.empty() ? std::vector{Host{}} : table.hosts) {
    RunHost& known = hosts_[host.stay.host];
    known.was_member = known.has_come = true;
    hosts.push_back(host.stay.host);
  }
  tell(hosts, order);
}

// The host that was to write it is gone with it, and no board has it.
void RunKeeper::write_first_table_again() {
  Table table{Txn(applied_), Generation(++generation_), kNone, {}, clock_.last_step()};
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    add(table, h,
        [this](const WorkerView& worker) { return holds_state(worker) && !worker.leaving(); });
  if (table.members.empty()) return;
  proposal_ = table;
  tell_first(table);
}

// Those of a host, behind the others'. Whoever is to be in it keeps its rank, and so does one that
// leaves and may yet be kept.
void RunKeeper::add(Table& table, std::size_t host,
                    const std::function<bool(const WorkerView&)>& is_member) {
  const HostView& view = hosts_[host].view;
  std::vector<WorkerUid>& ranks = hosts_[host].ranks;
  std::erase_if(ranks, [&view](WorkerUid uid) {
    const WorkerView* worker = view.find(uid);
    return worker == nullptr || worker->dismissed || worker->left;
  });
  std::vector<const WorkerView*> members;
  for (const WorkerUid uid : ranks)
    if (const WorkerView* worker = view.find(uid); is_member(*worker)) members.push_back(worker);
  if (members.empty()) return;
  HostFacts& facts = facts_.hosts[host];
  facts.standing = Standing::kHere;
  if (is_several()) table.hosts.push_back({facts.stay, std::max(facts.wanted, 1U)});
  for (const WorkerView* worker : members) table.members.push_back({worker->uid, worker->slot});
}

void RunKeeper::propose() {
  Table wish;
  wish.flags = facts_.in_order ? kStop : clock_.is_up() ? kTimeIsUp : kNone;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    if (is_several() && !hosts_[h].has_come) continue;
    add(wish, h, [](const WorkerView& worker) { return !worker.leaving(); });
  }
  if (wish.members.empty() || (proposal_ && wish.members == proposal_->members &&
                               wish.hosts == proposal_->hosts && wish.flags == proposal_->flags))
    return;
  wish.generation = Generation(++generation_);
  proposal_ = wish;
  tell_all(
      order::Propose{wish, wish.flags == kStop ? "the run is to stop in order"
                           : wish.flags == kTimeIsUp && clock_.last_step() == 0
                               ? "the time limit is reached: the next table names the last step"
                               : "the members wanted have changed"});
}

// What will be done about failures: once, before the first.
void RunKeeper::tell_policy() {
  if (std::exchange(policy_told_, true) || config_.asked_for_help) return;
  if (config_.attached)
    return turn_.print(
        action::Severity::kInfo,
        std::to_string(facts_.asked()) + " workers, started by hand; " +
            (facts_.elastic ? "the others go on without one that dies, and the same command "
                              "joins them again"
                            : "when one dies, all are ended"));
  const std::string first =
      facts_.elastic
          ? "replacements of those that die: " + std::to_string(config_.max_replacements) +
                " (--max-replacements)"
          : "when one dies, all are stopped";
  turn_.print(action::Severity::kInfo,
              policy(static_cast<int>(facts_.asked()), first, config_.max_restarts));
}

}  // namespace lockstep::coord
