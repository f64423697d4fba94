#include "support/toy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/env.h"
#include "support/held_steps.h"

namespace lockstep::toy {
namespace {

using namespace std::chrono_literals;

std::uint64_t mix(std::uint64_t x) {  // splitmix64 (Steele, Lea, Flood 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Status Toy::run() {
  worker::Description d;
  d.run_dir = dir_;
  d.manifest =
      R"({"shares":)" + std::to_string(shares_) + R"(,"txns":)" + std::to_string(txns_) + "}";
  if (options_.has("odd-manifest") && session_.identity().rank == Rank(1))
    d.manifest = R"({"shares":"odd"})";
  d.parameters = "word: u64 []\n";
  d.board = {shares_, 4, coord::ring_for(shares_, 4)};
  d.virtual_workers = shares_;
  d.total_txns = txns_;
  LOCKSTEP_ASSIGN(worker::Admission admission, session_.describe(d));
  lock_ = std::move(admission.run_lock);
  board_ = coord::Board(session_.memory(), d.board);
  const auto& id = session_.identity();
  LOCKSTEP_ASSIGN(injector_, worker::Injector::from_environment(
                                 board_, id.slot, !admission.newcomer && id.restart_count == 0));
  if (admission.newcomer) {
    if (options_.has("newcomers-fail"))
      return Error{ErrorKind::kBadData, "the data of the toy are gone"};
    LOCKSTEP_TRY(session_.ready(Txn(0), 0));
    return heal();
  }
  rank_ = id.rank;
  // A run's directory is known by it at the next start.
  if (rank_ == Rank(0))
    LOCKSTEP_TRY(write_atomically(posix_env(), dir_ + "/manifest.json", d.manifest));
  const std::uint64_t next = load();
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.number("load-ms", 0)));
  LOCKSTEP_TRY(session_.ready(Txn(next), state_));
  if (!session_.launched()) {
    LOCKSTEP_ASSIGN(recorder_, coord::Recorder::open(
                                   posix_env(), dir_, board_, Txn(next), [](std::string_view text) {
                                     std::fwrite(text.data(), 1, text.size(), stdout);
                                   }));
  }
  return train(next);
}

std::uint64_t Toy::load() {
  std::ifstream file(dir_ + "/toy.checkpoint");
  std::uint64_t txn = 0, state = 0;
  if (!(file >> txn >> state)) return 0;
  state_ = state;
  return txn;
}

void Toy::save(std::uint64_t txn, bool at_the_end) {
  const std::uint64_t every = options_.number("checkpoint-every", 0);
  if (every == 0 || (txn % every != 0 && !at_the_end) || rank_ != Rank(0)) return;
  phase(Phase::kSnapshot, txn);
  if (auto synced = session_.sync_records(Txn(txn), Deadline::in(5s)); !synced.ok()) return;
  const std::string text = std::to_string(txn) + " " + std::to_string(state_);
  if (write_atomically(posix_env(), dir_ + "/toy.checkpoint", text).ok())
    (void)session_.checkpoint_published(Txn(txn)).ok();
}

Status Toy::train(std::uint64_t txn) {
  const Trigger early = trigger(options_.text("exit-early")),
                failing = trigger(options_.text("fail")),
                other = trigger(options_.text("become-sleep"));
  for (; txn < txns_; ++txn) {
    coord::Table table;
    wait_until([&] { return coord::read_table(board_.table(Txn(txn)), Txn(txn), table); });
    const auto found = std::find_if(
        table.members.begin(), table.members.end(),
        [&](const coord::Member& member) { return member.uid == session_.identity().uid; });
    if (found == table.members.end() || (table.flags & coord::kStop) != 0) {
      const bool first = !table.members.empty() && found == table.members.begin();
      rank_ = first ? Rank(0) : coord::kNewcomer;
      save(txn, true);
      LOCKSTEP_TRY(session_.leave(Txn(txn)));
      return {};
    }
    rank_ = Rank(static_cast<int>(found - table.members.begin()));
    if (early.rank == rank_.value() && early.txn == txn) ::_exit(early.code);
    if (other.rank == rank_.value() && other.txn == txn && !session_.identity().newcomer)
      ::execlp("sleep", "sleep", "1000", nullptr);
    if (failing.rank == rank_.value() && failing.txn == txn)
      return Error{failing.code == 65 ? ErrorKind::kBadData : ErrorKind::kInternal,
                   "the toy was told to fail in transaction " + std::to_string(txn)};
    test::hold_step(dir_, static_cast<std::int64_t>(txn));
    step(table, txn);
    save(txn + 1);
  }
  return finish();
}

void Toy::step(const coord::Table& table, std::uint64_t txn) {
  mine().current_txn.store(txn);
  mine().epoch_step.store(txn);
  mine().items.store(shares_);
  wait_for_ring(txn);
  donate(txn);
  std::uint64_t dead_seen = 0;
  interrupted_ = false;
  while (true) {
    const std::vector<WorkerUid> dead = board_.dead();
    dead_seen = dead.size();
    const bool news = dead_seen > mine().seen_dead.load();
    if (news) mine().abort_seen_ns.store(monotonic_ns());
    mine().seen_dead.store(dead_seen);
    interrupted_ |= news;
    const coord::Ownership own(table, shares_, coord::Stay(), dead);
    const auto self = static_cast<std::uint32_t>(rank_.value());
    if (news) mine().regrouped_ns.store(monotonic_ns());
    compute_shares(own, self, txn);
    if (own.first_live() == self) publish_table(txn, table);
    ring_all(table);
    phase(Phase::kExchange, txn);
    wait_until([&] {
      return whole(txn) || board_.header().dead_count.load(std::memory_order_acquire) != dead_seen;
    });
    if (whole(txn)) break;
  }
  apply(txn);
  ring_all(table);
}

void Toy::compute_shares(const coord::Ownership& own, std::uint32_t self, std::uint64_t txn) {
  const std::vector<std::uint32_t>& items = own.items_of(self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t v = items[i];
    if (board_.record(Txn(txn), VirtualWorker(static_cast<int>(v)))
            .mark.load(std::memory_order_acquire) == txn + 1)
      continue;
    if (i == own.block_size(self)) mine().resumed_ns.store(monotonic_ns());
    compute(txn, v);
  }
}

void Toy::compute(std::uint64_t txn, std::uint32_t v) {
  for (const Phase step : {Phase::kData, Phase::kForward, Phase::kBackward}) phase(step, txn, v);
  stand_still(txn);
  if (const auto us = options_.number("step-us", 0); us > 0) ::usleep(static_cast<useconds_t>(us));
  if (const auto bytes = options_.number("print", 0); bytes > 0) {
    const std::string line = std::string(bytes, 'p') + "\n";
    // A reader that has gone is nobody's failure, as for printf.
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0 && errno != EPIPE)
      throw std::runtime_error("no output");
  }
  coord::ShareRecord& record = board_.record(Txn(txn), VirtualWorker(static_cast<int>(v)));
  record.loss_sum = 1.0;
  record.loss_count = 1;
  record.rates = mix(state_ ^ mix(txn * 1000 + v));
  record.ids_count = 0;
  const auto id = static_cast<std::int64_t>(txn * shares_ + v);
  record.add({id, id});
  record.mark.store(txn + 1, std::memory_order_release);
}

// --slow, once in a worker's life; replacements are not slow.
void Toy::stand_still(std::uint64_t txn) {
  const Trigger slow = trigger(options_.text("slow"));
  if (slow.txn != txn || (slow.rank != rank_.value() && slow.rank != -2)) return;
  if (was_slow_ || session_.identity().newcomer || session_.identity().restart_count > 0) return;
  was_slow_ = true;
  std::printf("stands still, process %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  const Deadline end = Deadline::in(std::chrono::seconds(slow.code));
  while (!end.passed())
    if (options_.text("how") == "asleep") pause(std::chrono::milliseconds(100));
}

// The first live member reads the agent's wish once and leaves out joiners that have not loaded
// this transaction's start.
void Toy::publish_table(std::uint64_t txn, const coord::Table& table) {
  coord::TableCell& cell = board_.table(Txn(txn + 1));
  if (cell.mark.load(std::memory_order_acquire) == txn + 2) return;
  coord::Table next = coord::read_proposal(board_.header().proposal);
  next.txn = Txn(txn + 1);
  const std::uint64_t begin = monotonic_ns();
  std::erase_if(next.members, [&](const coord::Member& member) {
    if (std::find(table.members.begin(), table.members.end(), member) != table.members.end())
      return false;
    const coord::WorkerSlot& slot = board_.slot(member.slot);
    if (slot.uid.load() != member.uid.value()) return true;
    while (shared().heal_mark.load() == txn + 1 && slot.ready_txn.load() != txn + 1 &&
           monotonic_ns() - begin < 20'000'000)
      std::this_thread::yield();
    return slot.ready_txn.load() != txn + 1;
  });
  mine().join_stall_ns.fetch_add(monotonic_ns() - begin);
  coord::write_table(cell, next);
  ring_all(next);
}

void Toy::donate(std::uint64_t txn) {
  coord::Header& header = board_.header();
  const std::uint64_t request = header.heal_request.load(std::memory_order_acquire);
  if (request == healed_request_ || header.heal_donor.load() != session_.identity().uid.value())
    return;
  healed_request_ = request;
  phase(Phase::kHeal, txn);
  shared().heal_mark.store(0);
  shared().heal_state.store(state_);
  shared().heal_mark.store(txn + 1, std::memory_order_release);
  for (const coord::Member& member : coord::read_proposal(header.proposal).members)
    ring(board_.slot(member.slot).bell);
}

Status Toy::heal() {
  while (true) {
    std::uint64_t mark = 0;
    wait_until([&] {
      return (mark = shared().heal_mark.load(std::memory_order_acquire)) != 0 &&
             mark != mine().ready_txn.load();
    });
    const std::uint64_t txn = mark - 1;
    mine().phase.store(static_cast<std::uint64_t>(Phase::kHeal));
    injector_.at(Phase::kHeal, Txn(txn), coord::kNewcomer);
    const std::uint64_t copy = shared().heal_state.load();
    if (shared().heal_mark.load(std::memory_order_acquire) != mark) continue;
    state_ = copy;
    mine().current_txn.store(txn);
    mine().ready_txn.store(mark);
    const coord::Table wish = coord::read_proposal(board_.header().proposal);
    ring_all(wish);
    coord::Table table;
    wait_until([&] { return whole(txn) || board_.table(Txn(txn + 1)).mark.load() > txn + 2; });
    if (!coord::read_table(board_.table(Txn(txn + 1)), Txn(txn + 1), table)) continue;  // too late
    const bool in = std::any_of(
        table.members.begin(), table.members.end(),
        [&](const coord::Member& member) { return member.uid == session_.identity().uid; });
    if (!in) continue;
    apply(txn);
    return train(txn + 1);
  }
}

bool Toy::whole(std::uint64_t txn) const {
  for (std::uint32_t v = 0; v < shares_; ++v)
    if (board_.record(Txn(txn), VirtualWorker(static_cast<int>(v)))
            .mark.load(std::memory_order_acquire) != txn + 1)
      return false;
  return board_.table(Txn(txn + 1)).mark.load(std::memory_order_acquire) == txn + 2;
}

void Toy::apply(std::uint64_t txn) {
  phase(Phase::kOptimizer, txn);
  std::uint64_t sum = 0;
  for (std::uint32_t v = 0; v < shares_; ++v)
    sum += board_.record(Txn(txn), VirtualWorker(static_cast<int>(v))).rates;
  state_ = mix(state_ + sum);
  commit_lines(txn);
  mine().applied.store(txn + 1, std::memory_order_release);
  if (interrupted_) mine().committed_ns.store(monotonic_ns());
  phase(Phase::kIdle, txn);
  if (recorder_ != nullptr) (void)recorder_->pump().ok();
}

void Toy::commit_lines(std::uint64_t txn) {
  coord::CommitLines& lines = board_.lines(session_.identity().slot, Txn(txn));
  const int console = std::snprintf(lines.text, sizeof lines.text, "step %llu\n",
                                    static_cast<unsigned long long>(txn));
  const int metrics =
      std::snprintf(lines.text + console, sizeof lines.text - static_cast<std::size_t>(console),
                    "{\"txn\":%llu,\"state\":%llu}\n", static_cast<unsigned long long>(txn),
                    static_cast<unsigned long long>(state_));
  lines.console_bytes = static_cast<std::uint32_t>(console);
  lines.metrics_bytes = static_cast<std::uint32_t>(metrics);
  lines.is_step = 1;
  lines.epoch = 0;
  lines.step = txn;
  lines.mark.store(txn + 1, std::memory_order_release);
}

// Entries of the ring are overwritten only once the agent has recorded them.
void Toy::wait_for_ring(std::uint64_t txn) {
  wait_until([&] { return board_.has_room(Txn(txn)); });
}

Status Toy::finish() {
  phase(Phase::kDone, txns_);
  char line[64];
  std::snprintf(line, sizeof line, "state %016llx\n", static_cast<unsigned long long>(state_));
  // Whoever is the first live member tells the end; if it dies before, the next one does.
  coord::Table table;
  wait_until([&] { return coord::read_table(board_.table(Txn(txns_)), Txn(txns_), table); });
  const Deadline deadline = Deadline::in(20s);
  bool told = false;
  wait_until([&] {
    const coord::Ownership own(table, shares_, coord::Stay(), board_.dead());
    const auto first = own.first_live();
    if (!told && first && table.members[*first].uid == session_.identity().uid)
      told = session_.finish({line, "{}"}).ok();
    return board_.header().final_recorded.load(std::memory_order_acquire) != 0 || deadline.passed();
  });
  return {};
}

}  // namespace lockstep::toy
