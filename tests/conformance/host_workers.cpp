#include "conformance/host_workers.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <utility>

namespace lockstep::conformance {

std::uint32_t Shape::all() const { return std::accumulate(workers.begin(), workers.end(), 0U); }

comm::ExchangePlan plan_of(const Shape& shape) {
  comm::ExchangePlan plan = conformance::awkward_plan(shape.virtual_workers);
  plan.hosts = static_cast<std::uint32_t>(shape.workers.size());
  plan.buffer_bytes = 200;
  plan.row_bytes = 64 + shape.seed % 2 * 8;
  plan.eval_items = shape.batches;
  plan.note_words = 3;
  plan.state_bytes = shape.state_bytes;
  return plan;
}

coord::Table first_table(const Shape& shape) {
  coord::Table table{Txn(0), Generation(1), coord::kNone, {}};
  for (std::uint32_t h = 0; h < shape.workers.size(); ++h) {
    const coord::Stay stay{static_cast<std::uint16_t>(h), 1};
    table.hosts.push_back({stay, shape.workers[h]});
    for (std::uint32_t w = 0; w < shape.workers[h]; ++w)
      table.members.push_back({coord::uid_of(stay, w + 1), Slot(w)});
  }
  table.parts = shape.parts(0);
  return table;
}

void check_boards(const Shape& shape, const std::vector<const carrier::BoardMemory*>& boards) {
  for (std::uint64_t t = shape.transactions - std::min<std::uint64_t>(shape.transactions, 4);
       t < shape.transactions; ++t) {
    const carrier::BoardMemory& one = *boards[0];
    const link::Contents contents = link::narrowed(one.plan().contents(t), shape.parts(t));
    for (std::size_t b = 0; b < boards.size(); ++b) {
      const carrier::BoardMemory& other = *boards[b];
      EXPECT_EQ(other.first_not_whole(), shape.transactions);
      contents.for_each(t, [&](const link::Item& item) {
        if (item.kind == link::Kind::kChunk) return;  // checked when it was whole
        ASSERT_EQ(one.mark(item), t + 1) << link::kKindNames[static_cast<int>(item.kind)];
        ASSERT_EQ(other.mark(item), t + 1);
        ASSERT_TRUE(std::ranges::equal(one.value(item).bytes, other.value(item).bytes))
            << link::kKindNames[static_cast<int>(item.kind)] << " " << item.index << " of t" << t
            << " is another one on board " << b;
      });
      ASSERT_NE(one.table(t + 1), nullptr);
      ASSERT_NE(other.table(t + 1), nullptr);
      EXPECT_EQ(one.table(t + 1)->members, other.table(t + 1)->members);
      EXPECT_EQ(one.table(t + 1)->generation, other.table(t + 1)->generation);
    }
  }
}

std::uint64_t board_bytes_of(const Shape& shape) {
  const coord::Board unmapped(nullptr, board_plan_of(shape));
  const auto layout =
      comm::shm::Layout::make(plan_of(shape), coord::kBoardBytes - unmapped.data_offset()).value();
  return unmapped.data_offset() + layout.end();
}

HostWorkers::HostWorkers(const Shape& shape, std::vector<Fault> faults, std::uint32_t index,
                         std::byte* memory, std::uint64_t bytes)
    : shape_(shape),
      faults_(std::move(faults)),
      index_(index),
      work_{plan_of(shape), {}, shape.sets},
      board_(memory, board_plan_of(shape)) {
  comm::ExchangePlan plan = work_.plan;
  plan.board_bytes = bytes;
  for (std::uint32_t w = 0; w < shape.workers[index]; ++w)
    exchanges_.push_back(
        comm::make_shm_exchange(board_, Slot(w), coord::uid_of(stay(), w + 1), plan));
}

void HostWorkers::start() {
  for (std::uint32_t w = 0; w < exchanges_.size(); ++w)
    threads_.emplace_back([this, w] { work(w); });
}

void HostWorkers::await() {
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void HostWorkers::stop_before(std::uint64_t txn) {
  border_ = txn;
  for (std::uint32_t w = 0; w < exchanges_.size(); ++w) ring(board_.slot(Slot(w)).bell);
}

void HostWorkers::append(const std::vector<WorkerUid>& deaths) {
  const std::lock_guard lock(appending_);
  coord::Header& header = board_.header();
  for (const WorkerUid death : deaths) {
    const std::uint64_t count = header.dead_count.load();
    header.dead_uid[count].store(death.value());
    header.dead_count.store(count + 1);
  }
  for (std::uint32_t w = 0; w < exchanges_.size(); ++w) ring(board_.slot(Slot(w)).bell);
  ring(header.link_bell);
}

// Of a host's workers each dies somewhere else, but all of them before the step is whole, or none.
Death HostWorkers::death_of(std::uint32_t worker, std::uint64_t txn) const {
  for (const Fault& fault : faults_) {
    if (fault.host != index_ || fault.txn != txn || fault.worker.value_or(worker) != worker)
      continue;
    if (fault.worker || fault.death == Death::kAfterWhole) return fault.death;
    return static_cast<Death>(1 + (static_cast<std::uint32_t>(fault.death) - 1 + worker) % 4);
  }
  return Death::kNever;
}

bool HostWorkers::dies_whole(std::uint64_t txn) const {
  return std::ranges::any_of(faults_, [&](const Fault& fault) {
    return fault.host == index_ && fault.txn == txn && !fault.worker;
  });
}

// Now and then, so that members and hosts are not in step.
void HostWorkers::dawdle(std::uint64_t where) const {
  const std::uint64_t random = mix(shape_.seed * 977 + index_ * 131 + where);
  if (random % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random >> 8 & 255));
}

void HostWorkers::work(std::uint32_t worker) {
  const WorkerUid uid = coord::uid_of(stay(), worker + 1);
  Doorbell& bell = board_.slot(Slot(worker)).bell;
  for (std::uint64_t t = 0; t < shape_.transactions; ++t) {
    coord::Table table;
    const bool told = wait_until(
        bell, [&] { return t < border_ && coord::read_table(board_.table(Txn(t)), Txn(t), table); },
        soon());
    ASSERT_TRUE(told) << "host " << index_ << ": the table of t" << t << " never comes";
    ASSERT_TRUE(table.has(uid));
    dawdle(t * 7 + worker);
    const Death death = death_of(worker, t);
    const bool lives = take(*exchanges_[worker], table, uid, death);
    if (death != Death::kNever) {
      EXPECT_FALSE(lives);
      if (!dies_whole(t)) append({uid});
      return;
    }
    ASSERT_TRUE(lives);
  }
}

// False: died as asked, or could not go on.
bool HostWorkers::take(comm::Exchange& exchange, const coord::Table& table, WorkerUid uid,
                       Death death) {
  if (death == Death::kBeforeBegin) return false;
  const bool step = table.parts.is_step;
  const Status begun =
      step ? exchange.begin(table) : exchange.begin_evaluation(table, table.parts.items);
  EXPECT_TRUE(begun.ok()) << begun.error().message;
  if (!begun.ok()) return false;
  const std::size_t buckets = work_.plan.buckets.size();
  Lent lent;
  std::set<std::uint32_t> done;
  if (death == Death::kAfterSomePublished) {
    if (step) publish_owned(exchange, work_, table.txn, done, buckets / 2, lent);
    return false;
  }
  for (;;) {
    if (step) publish_owned(exchange, work_, table.txn, done, buckets, lent);
    if (death == Death::kAfterAllPublished) return false;
    compute(exchange, table, uid, death == Death::kAfterSomeSums);
    if (death == Death::kAfterSomeSums) {
      exchange.progress();
      return false;
    }
    if (step) leave_out(exchange, work_, table.txn, buckets);
    publish_next(exchange, table);
    exchange.ring_members();
    const Result<comm::Wait> outcome =
        exchange.wait([&] { return is_whole(exchange, table); }, soon());
    if (!outcome.ok()) {
      ADD_FAILURE() << "host " << index_ << ": " << outcome.error().message;
      return false;
    }
    if (*outcome == comm::Wait::kChanged) continue;
    EXPECT_EQ(check(exchange, table), "") << "host " << index_ << ", member " << uid.value();
    return death != Death::kAfterWhole;
  }
}

// Records and what goes with them, or cells; some of them.
void HostWorkers::compute(comm::Exchange& exchange, const coord::Table& table, WorkerUid uid,
                          bool some) {
  const std::uint64_t t = table.txn.value(), mark = t + 1;
  const auto& own = exchange.ownership().items_of(exchange.self());
  const std::size_t count = some ? own.size() / 2 : own.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t item = own[i];
    dawdle(t * 31 + item);
    if (!table.parts.is_step) {
      comm::EvalCell& cell = exchange.eval(item);
      if (cell.mark.load() >= mark) continue;
      cell.loss_sum = static_cast<double>(t * 100 + item);
      cell.run_seconds = static_cast<double>(uid.value());
      cell.mark.store(mark);
      exchange.ring_link();
      continue;
    }
    coord::ShareRecord& record = board_.record(table.txn, VirtualWorker(static_cast<int>(item)));
    if (!exchange.row_published(item)) {
      std::ranges::fill(exchange.row(item), std::byte(t * 16 + item));
      exchange.publish_row(item);
    }
    if (item == 0 && !exchange.buffers_published()) {
      std::ranges::fill(exchange.buffers(), std::byte(t + 100));
      exchange.publish_buffers();
    }
    if (record.mark.load() >= mark) continue;  // the dead may have left no more than that
    record.loss_sum = static_cast<double>(t * 100 + item);
    record.epoch_began_ns = uid.value();
    record.ids_count = 0;
    for (std::uint32_t id = 0; id < item % 4; ++id) record.add({id, id + item});
    for (coord::Word& note : exchange.notes(item)) note.store(t * 1000 + item);
    record.mark.store(mark);
  }
}

bool HostWorkers::is_whole(comm::Exchange& exchange, const coord::Table& table) const {
  const std::uint64_t mark = table.txn.value() + 1;
  if (board_.table(Txn(mark)).mark.load() < mark + 1) return false;
  for (std::uint32_t item = 0; item < table.parts.items; ++item) {
    const coord::Word& word =
        table.parts.is_step ? board_.record(table.txn, VirtualWorker(static_cast<int>(item))).mark
                            : exchange.eval(item).mark;
    if (word.load() < mark) return false;
    if (table.parts.is_step && !exchange.row_published(item)) return false;
  }
  return !table.parts.is_step || exchange.buffers_published();
}

// What is wrong with a transaction that is whole.
std::string HostWorkers::check(comm::Exchange& exchange, const coord::Table& table) const {
  const std::uint64_t t = table.txn.value();
  for (std::uint32_t item = 0; item < table.parts.items; ++item) {
    const std::string name = " of t" + std::to_string(t) + ", " + std::to_string(item);
    if (!table.parts.is_step) {
      if (exchange.eval(item).loss_sum != static_cast<double>(t * 100 + item))
        return "a cell" + name;
      continue;
    }
    const coord::ShareRecord& record =
        board_.record(table.txn, VirtualWorker(static_cast<int>(item)));
    if (record.loss_sum != static_cast<double>(t * 100 + item) || record.ids_count != item % 4)
      return "a record" + name;
    for (const coord::Word& note : exchange.notes(item))
      if (note.load() != t * 1000 + item) return "a note" + name;
    for (const std::byte byte : exchange.row(item))
      if (byte != std::byte(t * 16 + item)) return "a row" + name;
  }
  if (!table.parts.is_step) return "";
  for (const std::byte byte : exchange.buffers())
    if (byte != std::byte(t + 100)) return "buffers of t" + std::to_string(t);
  return check_sums(exchange, work_, table.txn);
}

// As a participant does: less the dead that this board knows.
void HostWorkers::publish_next(comm::Exchange& exchange, const coord::Table& table) {
  coord::TableCell& cell = board_.table(Txn(table.txn.value() + 1));
  if (exchange.ownership().first_live() != exchange.self() ||
      cell.mark.load() >= table.txn.value() + 2)
    return;
  coord::Table next = table;
  next.txn = Txn(table.txn.value() + 1);
  next.parts = shape_.parts(next.txn.value());
  next.generation = Generation(table.generation.value() + 1 + index_);
  const std::vector<WorkerUid> dead = board_.dead();
  std::erase_if(next.members, [&](const auto& m) { return coord::is_dead(dead, m.uid); });
  std::erase_if(next.hosts, [&](const coord::Host& host) {
    return coord::is_dead(dead, coord::death_of(host.stay));
  });
  coord::write_table(cell, next);
}

}  // namespace lockstep::conformance
