// How workers come in: spawns, the first table, proposals, scaling.
#include <csignal>

#include "coord/membership_state.h"

namespace lockstep::coord {

// Until its process is gone, so that no two have one local rank and its logs; but for a while only,
// as a process that does not end must not keep others from joining.
bool Coordinator::State::holds_seat(const Worker& worker) const {
  return !worker.going_at || turn.now < *worker.going_at + timing.close_grace;
}

void Coordinator::State::spawn_missing() {
  if ((config.zygote && !zygote.ready) || !spawns.pause.over(turn.now)) return;
  const auto world = static_cast<int>(std::max(facts.target, config.workers));
  while (active() < facts.target) {
    // Below the target: fewer than it has seats hold those who stay.
    int seat = 0;
    while (std::any_of(workers.begin(), workers.end(), [&](const auto& entry) {
      return entry.second.seat == seat && holds_seat(entry.second);
    }))
      ++seat;
    if (seat >= world) return;  // one becomes free as soon as those who leave are gone
    const auto slot = slots.take();
    if (!slot) return;  // one becomes free when the interrupted transaction is committed
    Worker worker;
    worker.uid = WorkerUid(++last_uid);
    worker.slot = *slot;
    worker.seat = seat;
    worker.since = turn.now;
    worker.newcomer = facts.group == Group::kRunning;
    act(action::Spawn{worker.uid, worker.slot, Rank(worker.seat), LocalRank(worker.seat), world,
                      restarts.used(), restarts.most(), worker.newcomer},
        worker.newcomer ? "the group has fewer workers than wanted" : "the group starts");
    workers.add(worker);
  }
}

// The zygote that was to fork them is gone, and nobody knows how far it got: they are asked for
// again under fresh uids.
void Coordinator::State::drop_unforked(const char* why) {
  workers.remove_if([&](const Worker& worker) {
    if (worker.stage != Stage::kSpawning) return false;
    slots.retire(worker.slot);
    act(action::Kill{worker.uid, SIGKILL}, why);
    return true;
  });
}

// A place for a rank that is started by hand and has not come, where nothing is left to run: the
// others of its run may have ended long ago.
bool Coordinator::State::is_not_needed(const Worker& worker) const {
  return config.attached && worker.stage == Stage::kSpawning &&
         std::any_of(workers.begin(), workers.end(),
                     [](const auto& entry) { return entry.second.complete; });
}

void Coordinator::State::write_first_table() {
  if (active() == 0 || active() < facts.target) return;
  const Worker* first = nullptr;
  for (const auto& [uid, worker] : workers) {
    if (worker.dismissed || is_not_needed(worker)) continue;
    if (worker.stage != Stage::kReady) return;
    if (first == nullptr) first = &worker;
    if (worker.next != first->next)
      return stop_now(1, name(*first) + " is ready for transaction " +
                             std::to_string(first->next.value()) + ", " + name(worker) + " for " +
                             std::to_string(worker.next.value()) +
                             ": they loaded different checkpoints");
    if (worker.state_hash != first->state_hash)
      return stop_now(1, name(*first) + " and " + name(worker) +
                             " start from different states (weights, optimizer state with its "
                             "learning rate, texts): nothing in it may depend on the rank");
    if (worker.time != first->time)
      return stop_now(1, name(*first) + " and " + name(worker) +
                             " start with different time limits, or with different words of when "
                             "an earlier one was reached: give all ranks the same options, and "
                             "start again");
  }
  Table table{first->next, Generation(++generation), kNone, {}, first->time.stop_after_step};
  std::vector<const Worker*> seated;
  for (const auto& [uid, worker] : workers)
    if (!worker.dismissed && !is_not_needed(worker)) seated.push_back(&worker);
  std::sort(seated.begin(), seated.end(),
            [](const Worker* a, const Worker* b) { return a->seat < b->seat; });
  for (const Worker* worker : seated) {
    table.members.push_back({worker->uid, worker->slot});
    order.push_back(worker->uid);
    Worker& member = workers.at(worker->uid);
    member.stage = Stage::kMember;
    member.proposed = true;
    member.first_txn = table.txn;
  }
  facts.group = Group::kRunning;
  tell_policy();
  applied = table.txn.value();
  furthest = std::max(furthest, applied);
  proposal = table;
  board.tables = {table};
  clock.begin(first->time, turn.now);
  act(action::WriteProposal{table}, "all workers are ready");
  act(action::WriteTable{table, clock.ran(turn.now)}, "all workers are ready");
}

void Coordinator::State::propose() {
  Table wish;
  wish.flags = facts.group == Group::kStopping ? kStop : clock.is_up() ? kTimeIsUp : kNone;
  std::erase_if(order, [&](WorkerUid uid) {
    const Worker* worker = find(uid);
    return worker == nullptr || worker->leaving();
  });
  for (const WorkerUid uid : order) {
    Worker& worker = workers.at(uid);
    worker.proposed = true;
    wish.members.push_back({uid, worker.slot});
  }
  if (wish.members.empty() ||
      (proposal && wish.members == proposal->members && wish.flags == proposal->flags))
    return;
  wish.generation = Generation(++generation);
  proposal = wish;
  act(action::WriteProposal{wish},
      wish.flags == kStop ? "the run is to stop in order"
      : wish.flags == kTimeIsUp && clock.last_step() == 0
          ? "the time limit is reached: the next table names the last step"
          : "the members wanted have changed");
}

void Coordinator::State::dismiss(Worker& worker, const char* why) {
  worker.dismissed = true;
  worker.going_at = turn.now;
  if (config.attached && worker.stage > Stage::kSpawning)
    return act(action::End{worker.uid, facts.stop_code, why}, why);
  act(action::Kill{worker.uid, SIGKILL}, why);
}

// Newest first, as long as there are more workers than wanted.
void Coordinator::State::dismiss_newcomers() {
  for (auto it = workers.rbegin(); it != workers.rend() && active() > facts.target; ++it)
    if (!it->second.leaving() && !it->second.holds_state())
      dismiss(it->second, "fewer workers are wanted");
}

void Coordinator::State::grow_or_shrink(std::uint32_t count) {
  facts.wanted = facts.target = count;
  dismiss_newcomers();
  // Then the highest ranks.
  for (auto it = order.rbegin(); it != order.rend() && active() > facts.target; ++it) {
    Worker& worker = workers.at(*it);
    if (worker.stage != Stage::kMember) continue;
    worker.stage = Stage::kLeaving;
    worker.may_leave = true;
  }
}

void Coordinator::State::on(const event::Scale& scale) {
  const auto answer = [&](bool ok, std::string text, ErrorKind kind = ErrorKind::kUsage) {
    act(action::Reply{scale.request, ok, std::move(text), kind}, "scale");
  };
  const std::string count = std::to_string(scale.workers);
  if (!facts.elastic)
    return answer(false,
                  "this program cannot be scaled: it does not run its steps through Lockstep "
                  "(step.run or Trainer)");
  if (facts.is_ending())
    return answer(false, "the run is about to end: it takes no more workers and gives none away",
                  ErrorKind::kAborted);
  if (facts.group != Group::kRunning)
    return answer(false, "the run is not training yet; try again when it has begun a step",
                  ErrorKind::kUnavailable);
  if (scale.workers == 0)
    return answer(false,
                  "cannot scale to 0 workers; end the run with SIGTERM to the launcher instead");
  if (scale.workers > facts.virtual_workers)
    return answer(false,
                  "cannot scale to " + count + " workers: the run has " +
                      std::to_string(facts.virtual_workers) +
                      " virtual workers (--virtual-workers), and each worker needs at least one");
  if (scale.workers > kMaxWorkers)
    return answer(false, "cannot scale to " + count + " workers: the limit is " +
                             std::to_string(kMaxWorkers));
  if (scale.workers > config.workers && config.attached)
    return answer(false, "cannot scale to " + count + " workers: the run was started by hand for " +
                             std::to_string(config.workers) + ", and there are no other ranks");
  if (scale.workers > facts.target && config.zygote && zygote.given_up())
    return answer(false, "cannot grow: the program ended before lockstep::init() too often");
  const std::uint32_t before = facts.target;
  if (!scaled_from) scaled_from = before;
  grow_or_shrink(scale.workers);
  answer(true, "from " + std::to_string(before) + " to " + count + " workers");
}

}  // namespace lockstep::coord
