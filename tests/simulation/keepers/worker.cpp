// A worker's life, as far as keepers and boards see it.
#include <algorithm>

#include "coord/next_table.h"
#include "run.h"

namespace lockstep::simulation {

namespace event = coord::event;
using Life = SimWorker::Life;

void SimHost::after(const std::shared_ptr<SimWorker>& worker, std::uint64_t delay,
                    void (SimHost::*what)(const std::shared_ptr<SimWorker>&)) {
  run_.clock.after(delay, [this, worker, what] {
    if (worker->life != Life::kGone && !is_lost && !run_.is_over()) (this->*what)(worker);
  });
}

std::uint64_t SimHost::last(const Table& table) const {
  return table.stop_after_step != 0 ? table.stop_after_step : run_.shape.transactions;
}

// Looks at its board, less and less often while nothing comes of it.
void SimHost::poll(const std::shared_ptr<SimWorker>& worker) {
  if (worker->hung) return after(worker, 50 * kMillisecond, &SimHost::poll);
  const std::uint64_t before = worker->seen.progress;
  const bool out = coord::is_dead(worker->board->dead, worker->uid);
  if (worker->board == board && !worker->computes && !out) {
    if (worker->life == Life::kWaits) wait_for_copy(*worker);
    if (worker->life == Life::kLoading) load(*worker);
    if (worker->life == Life::kMember) compute(worker);
    if (worker->life == Life::kDone) end(worker);
  }
  const std::uint64_t most = run_.quiet() > kSecond ? 200 * kMillisecond : 4 * kMillisecond;
  worker->pause = worker->seen.progress != before ? 0 : std::min(2 * worker->pause, most);
  worker->pause = std::max(worker->pause, run_.random.between(50, 500) * kMicrosecond);
  after(worker, worker->pause, &SimHost::poll);
}

// A copy comes from this board where somebody of it has the state, else over the network.
void SimHost::wait_for_copy(SimWorker& worker) {
  if (!members().empty()) {
    if (board->copied == 0 || run_.random.chance(0.5)) return;
    worker.txn = board->copied - 1;
  } else {
    std::vector<const Board*> sources;
    for (const auto& host : run_.hosts)
      if (host.get() != this && !host->is_lost && host->board->attempt == board->attempt &&
          host->board->donor != WorkerUid(0) && host->board->copied != 0)
        sources.push_back(host->board.get());
    if (sources.empty() || run_.random.chance(0.5)) return;
    worker.txn = sources.front()->copied - 1;
    run_.see("copies for other hosts");
  }
  worker.seen.ready_txn = worker.txn + 1;
  worker.life = Life::kLoading;
}

// It has the state of the start of `txn`; its first table is the next one.
void SimHost::load(SimWorker& worker) {
  const Table* table = board->table(worker.txn + 1);
  if (table == nullptr) return;
  if (!table->has(worker.uid)) {
    worker.life = Life::kWaits;
    worker.seen.ready_txn = 0;
    return;
  }
  if (board->marks[worker.txn].size() < run_.shape.virtual_workers) return run_.loads();
  worker.seen.applied = ++worker.txn;
  worker.seen.current_txn = Txn(worker.txn);
  worker.life = Life::kMember;
  run_.see(members().size() == 1 ? "hosts that come" : "newcomers");
  ++worker.seen.progress;
}

void SimHost::compute(const std::shared_ptr<SimWorker>& worker) {
  const Table* table = board->table(worker->txn);
  if (table == nullptr || !table->has(worker->uid)) return;
  if ((table->flags & coord::kStop) != 0) return leave(worker);  // it has come in with it
  if (table->stop_after_step != 0 && board->stop_recorded != table->stop_after_step) return;
  if (worker->txn >= last(*table)) {
    worker->life = Life::kDone;
    worker->seen.phase = coord::Phase::kDone;
    return;
  }
  const coord::Ownership own(*table, run_.shape.virtual_workers, board->stay, board->dead);
  const auto self = static_cast<std::uint32_t>(
      std::ranges::find(table->members, worker->uid, &coord::Member::uid) - table->members.begin());
  coord::WorkerProgress& seen = worker->seen;
  seen.current_txn = Txn(worker->txn);
  seen.items = run_.shape.virtual_workers;
  const std::set<std::uint32_t>& marked = board->marks[worker->txn];
  for (const std::uint32_t item : own.items_of(self)) {
    if (marked.contains(item)) continue;
    worker->computes = item;
    worker->done_since.reset();
    seen.phase = coord::Phase::kForward;
    seen.item = item;
    ++seen.progress;
    after(worker, run_.random.between(kMillisecond, 20 * kMillisecond), &SimHost::end);
    return;
  }
  go_on(worker, *table, own, self);
}

void SimHost::go_on(const std::shared_ptr<SimWorker>& worker, const Table& table,
                    const coord::Ownership& own, std::uint32_t self) {
  if (worker->seen.phase != coord::Phase::kExchange) ++worker->seen.progress;
  worker->seen.phase = coord::Phase::kExchange;
  if (!worker->done_since) worker->done_since = run_.clock.now();
  if (own.first_live() == self && board->table(worker->txn + 1) == nullptr &&
      !joiner_missing(*worker, table))
    publish(*worker, table);
  const Table* next = board->table(worker->txn + 1);
  if (next != nullptr && board->marks[worker->txn].size() == run_.shape.virtual_workers)
    apply(worker, *next);
}

bool SimHost::joiner_missing(const SimWorker& worker, const Table& table) const {
  if (run_.clock.now() > *worker.done_since + 30 * kMillisecond) return false;
  const bool copied = std::ranges::any_of(run_.hosts, [&](const auto& host) {
    return !host->is_lost && host->board->copied == worker.txn + 1;
  });
  return copied && std::ranges::any_of(board->proposal.members, [&](const coord::Member& m) {
           const auto joiner = run_.find(m.uid);
           return !table.has(m.uid) && joiner != nullptr &&
                  joiner->seen.ready_txn != worker.txn + 1;
         });
}

// By the newest proposal that this board knows of, be it only from the table.
void SimHost::publish(SimWorker& worker, const Table& table) {
  std::vector<coord::Member> ready = coord::joiners(table, board->proposal, board->dead);
  std::erase_if(ready, [&](const coord::Member& member) {
    const auto joiner = run_.find(member.uid);
    return joiner == nullptr || joiner->seen.ready_txn != worker.txn + 1 ||
           joiner->life != Life::kLoading;
  });
  const Table next =
      coord::next_table({.today = table,
                         .wish = board->proposal,
                         .dead = board->dead,
                         .ready = ready,
                         .last_step = std::min(worker.txn + 1, run_.shape.transactions)});
  run_.check_table(*board, next);
  board->tables[next.txn.value()] = next;
  ++worker.seen.progress;
}

void SimHost::apply(const std::shared_ptr<SimWorker>& worker, const Table& next) {
  run_.progressed();
  worker->seen.applied = worker->txn + 1;
  worker->done_since.reset();
  ++worker->seen.progress;
  if (!next.has(worker->uid) || (next.flags & coord::kStop) != 0) return leave(worker);
  ++worker->txn;
  if (worker->txn % 3 == 0) checkpoint = std::max(checkpoint, worker->txn);
  if (board->donor == worker->uid && board->request != worker->handled) {
    worker->handled = board->request;
    board->copied = worker->txn + 1;
  }
}

// Of a share, or of the run.
void SimHost::end(const std::shared_ptr<SimWorker>& worker) {
  if (worker->life == Life::kMember && worker->computes) {
    if (worker->hung) return after(worker, 50 * kMillisecond, &SimHost::end);
    const std::uint32_t item = *std::exchange(worker->computes, std::nullopt);
    if (run_.bad_share == std::pair(worker->txn, item)) {
      run_.see("crashes in a share");
      return kill(*worker, {7, 0});
    }
    board->marks[worker->txn].insert(item);
    ++worker->seen.progress;
    return;
  }
  if (worker->life != Life::kDone) return;
  if (board->final_recorded) return kill(*worker, {0, 0});
  const Table* table = board->table(worker->txn);
  const auto first = std::ranges::find_if(table->members, [&](const coord::Member& m) {
    return coord::stay_of(m.uid) == board->stay && !coord::is_dead(board->dead, m.uid);
  });
  if (worker->said_end || first == table->members.end() || first->uid != worker->uid) return;
  worker->said_end = true;
  checkpoint = worker->txn;
  run_.clock.after(run_.random.between(100 * kMicrosecond, 3 * kMillisecond), [this, worker] {
    if (worker->life != Life::kGone && !is_lost) feed(event::Finished{worker->uid});
  });
}

void SimHost::leave(const std::shared_ptr<SimWorker>& worker) {
  run_.see("leavers");
  worker->life = Life::kBooting;  // neither member nor gone
  feed(event::Left{worker->uid, Txn(worker->seen.applied)});
  run_.clock.after(run_.random.between(100 * kMicrosecond, 5 * kMillisecond), [this, worker] {
    kill(*worker, {0, 0});
  });
}

}  // namespace lockstep::simulation
