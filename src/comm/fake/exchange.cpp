// The reference exchange: threads of one process, one mutex, sums by recursion. Slow and plain.
#include "comm/exchange.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "comm/fake/plain_sum.h"
#include "comm/kernels.h"

namespace lockstep::comm {

class FakeWorld {
 public:
  explicit FakeWorld(const ExchangePlan& wanted)
      : plan(wanted), sums(wanted.buckets.size()), heal(wanted.state_bytes) {
    for (std::size_t b = 0; b < sums.size(); ++b)
      sums[b].bytes.resize(wanted.buckets[b].count * size_of(wanted.buckets[b].dtype));
    for (auto& buffer : buffers) buffer.bytes.resize(wanted.buffer_bytes);
    for (auto& generation : rows)
      generation.assign(wanted.virtual_workers, {fake::Bytes(wanted.row_bytes), 0, {}, {}});
    for (auto& generation : cells) generation = std::vector<EvalCell>(wanted.eval_items);
    for (auto& generation : judged) generation = std::vector<coord::Word>(wanted.virtual_workers);
    for (auto& generation : notes)
      generation = std::vector<coord::Word>(wanted.virtual_workers * wanted.note_words);
  }

  // Something changed: everybody looks again. Precondition: the mutex is held.
  void ring() {
    ++rings;
    changed.notify_all();
  }

  struct Marked {
    fake::Bytes bytes;
    std::uint64_t mark = 0;                            // txn + 1
    coord::Node node;                                  // pieces
    std::uint64_t left_out[coord::kGenerations] = {};  // sums: txn + 1 where there is none
  };

  const ExchangePlan plan;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t rings = 0;
  std::vector<WorkerUid> dead;
  // Writer, first leaf, bucket.
  std::map<std::tuple<WorkerUid, std::uint32_t, std::uint32_t>, Marked> pieces;
  std::vector<Marked> sums;
  // Of transaction t in t % kGenerations.
  Marked buffers[coord::kGenerations];
  std::vector<Marked> rows[coord::kGenerations];
  std::vector<EvalCell> cells[coord::kGenerations];
  std::vector<coord::Word> notes[coord::kGenerations], judged[coord::kGenerations];
  fake::Bytes heal;
  coord::Word heal_mark{0};
};

namespace {

class FakeExchange final : public Exchange {
 public:
  FakeExchange(std::shared_ptr<FakeWorld> world, WorkerUid uid)
      : world_(std::move(world)), uid_(uid) {}

  Status begin(const coord::Table& table) override {
    if (table.members.size() > world_->plan.virtual_workers)
      return Error{ErrorKind::kUsage, "exchange: " + std::to_string(table.members.size()) +
                                          " members; at most " +
                                          std::to_string(world_->plan.virtual_workers)};
    return start(table, world_->plan.virtual_workers, true);
  }
  Status begin_evaluation(const coord::Table& table, std::uint32_t items) override {
    if (items > world_->plan.eval_items)
      return Error{ErrorKind::kUsage, "exchange: " + std::to_string(items) +
                                          " batches to evaluate; the plan has " +
                                          std::to_string(world_->plan.eval_items)};
    return start(table, items, false);
  }

  const coord::Ownership& ownership() const override { return *ownership_; }
  std::uint32_t self() const override { return self_; }

  std::span<std::byte> piece(std::uint32_t leaf, std::uint32_t bucket) override {
    const std::lock_guard lock(world_->mutex);
    auto& bytes = world_->pieces[{uid_, leaf, bucket}].bytes;
    bytes.resize(world_->sums[bucket].bytes.size());
    return bytes;
  }

  void publish(coord::Node node, std::uint32_t bucket) override {
    const std::lock_guard lock(world_->mutex);
    auto& piece = world_->pieces[{uid_, node.first_leaf(), bucket}];
    piece.bytes.resize(world_->sums[bucket].bytes.size());
    piece.node = node;
    piece.mark = mark();
    world_->ring();
  }

  void leave_out(std::uint32_t bucket) override {
    const std::lock_guard lock(world_->mutex);
    FakeWorld::Marked& sum = world_->sums[bucket];
    std::uint64_t& left_out = sum.left_out[table_.txn.value() % coord::kGenerations];
    left_out = std::max(left_out, mark());
    sum.mark = std::max(sum.mark, mark());
    world_->ring();
  }
  std::optional<bool> left_out(std::uint32_t bucket) const override {
    const std::lock_guard lock(world_->mutex);
    const std::uint64_t left_out =
        world_->sums[bucket].left_out[table_.txn.value() % coord::kGenerations];
    if (left_out > mark()) return std::nullopt;
    return left_out == mark();
  }

  void progress() override {
    const std::lock_guard lock(world_->mutex);
    sum_what_is_ready();
  }

  Result<Wait> wait(const std::function<bool()>& also, const std::function<Status()>& meanwhile,
                    Deadline deadline) override;

  std::span<const std::byte> sum(std::uint32_t bucket) const override {
    return world_->sums[bucket].bytes;
  }

  bool finite(std::uint32_t bucket) const override {
    const BucketSpec& spec = world_->plan.buckets[bucket];
    return kernels_for(spec.dtype, Isa::kBaseline).finite(sum(bucket).data(), spec.count);
  }

  void ring_members() override {
    const std::lock_guard lock(world_->mutex);
    world_->ring();
  }

  std::span<std::byte> buffers() override {
    return world_->buffers[table_.txn.value() % coord::kGenerations].bytes;
  }
  void publish_buffers() override {
    const std::lock_guard lock(world_->mutex);
    world_->buffers[table_.txn.value() % coord::kGenerations].mark = mark();
    world_->ring();
  }
  bool buffers_published() const override {
    const std::lock_guard lock(world_->mutex);
    return world_->buffers[table_.txn.value() % coord::kGenerations].mark == mark();
  }

  std::span<std::byte> row(std::uint32_t v) override { return row_of(v).bytes; }
  void publish_row(std::uint32_t v) override {
    const std::lock_guard lock(world_->mutex);
    row_of(v).mark = mark();
  }
  bool row_published(std::uint32_t v) const override {
    const std::lock_guard lock(world_->mutex);
    return world_->plan.row_bytes == 0 || row_of(v).mark >= mark();
  }

  EvalCell& eval(std::uint32_t item) override {
    return world_->cells[table_.txn.value() % coord::kGenerations][item];
  }
  std::span<coord::Word> notes(std::uint32_t v) override {
    const std::uint64_t words = world_->plan.note_words;
    return std::span(world_->notes[table_.txn.value() % coord::kGenerations])
        .subspan(v * words, words);
  }
  std::span<std::byte> heal_region() override { return world_->heal; }
  coord::Word& judged_mark(std::uint32_t v) override {
    return world_->judged[table_.txn.value() % coord::kGenerations][v];
  }
  coord::Word& heal_mark() override { return world_->heal_mark; }
  Newcomer newcomer(const coord::Member&) const override { return {world_->heal_mark.load(), 0}; }
  void prefault(bool) override {}  // memory of one process is there when it is asked for
  std::uint64_t end() const override { return 0; }

  void abort(Error cause) override {
    const std::lock_guard lock(world_->mutex);
    fail(std::move(cause));
    world_->ring();
  }

 private:
  std::uint64_t mark() const { return table_.txn.value() + 1; }
  bool member() const { return self_ < table_.members.size(); }
  FakeWorld::Marked& row_of(std::uint32_t v) const {
    return world_->rows[table_.txn.value() % coord::kGenerations][v];
  }
  void fail(Error cause) {
    if (!cause_) cause_ = std::move(cause);
  }

  Status start(const coord::Table& table, std::uint32_t items, bool sums) {
    const std::lock_guard lock(world_->mutex);
    if (cause_) return *cause_;
    table_ = table;
    items_ = items;
    sums_ = sums;
    const auto found = std::find_if(table.members.begin(), table.members.end(),
                                    [&](const coord::Member& m) { return m.uid == uid_; });
    self_ = static_cast<std::uint32_t>(found - table.members.begin());
    share_out();
    if (cause_) return *cause_;
    return {};
  }

  void share_out() {
    dead_seen_ = world_->dead.size();
    ownership_.emplace(table_, items_, coord::stay_of(uid_), world_->dead);
    if (member() && !ownership_->alive(self_))
      fail({ErrorKind::kAborted,
            "exchange: worker " + std::to_string(uid_.value()) + " was declared dead"});
  }

  // The writer's bytes if that is what it published.
  const fake::Bytes* supplied(const coord::Piece& piece, std::uint32_t bucket) const {
    const auto found =
        world_->pieces.find({table_.members[piece.member].uid, piece.node.first_leaf(), bucket});
    if (found == world_->pieces.end()) return nullptr;
    return found->second.mark == mark() && found->second.node == piece.node ? &found->second.bytes
                                                                            : nullptr;
  }

  void sum_what_is_ready() {
    if (!sums_ || !member()) return;
    const auto pieces = ownership_->pieces();
    for (std::uint32_t b = 0; b < world_->sums.size(); ++b) {
      const bool ready = std::all_of(pieces.begin(), pieces.end(), [&](const coord::Piece& piece) {
        return supplied(piece, b) != nullptr;
      });
      if (world_->sums[b].mark >= mark() || !ready) continue;
      const DType dtype = world_->plan.buckets[b].dtype;
      fake::Bytes sum = fake::plain_sum(dtype, items_, [&](coord::Node node) -> const fake::Bytes* {
        const auto found =
            std::find_if(pieces.begin(), pieces.end(),
                         [&](const coord::Piece& piece) { return piece.node == node; });
        return found == pieces.end() ? nullptr : supplied(*found, b);
      });
      fake::plain_scale(dtype, sum, world_->plan.scale);
      std::copy(sum.begin(), sum.end(), world_->sums[b].bytes.begin());
      world_->sums[b].mark = mark();
      world_->ring();
    }
  }

  bool whole() const {
    return !sums_ || std::all_of(world_->sums.begin(), world_->sums.end(),
                                 [&](const FakeWorld::Marked& sum) { return sum.mark >= mark(); });
  }

  const std::shared_ptr<FakeWorld> world_;
  const WorkerUid uid_;
  coord::Table table_;
  std::uint32_t items_ = 0, self_ = 0;
  bool sums_ = false;
  std::optional<coord::Ownership> ownership_;
  std::size_t dead_seen_ = 0;
  std::optional<Error> cause_;  // under the world's mutex
};

Result<Wait> FakeExchange::wait(const std::function<bool()>& also,
                                const std::function<Status()>& meanwhile, Deadline deadline) {
  std::unique_lock lock(world_->mutex);
  for (;;) {
    if (cause_) return *cause_;
    const std::uint64_t seen = world_->rings;
    lock.unlock();  // it may call us
    LOCKSTEP_TRY(meanwhile());
    lock.lock();
    sum_what_is_ready();
    if (whole()) {
      lock.unlock();  // also() may call us
      const bool done = also();
      lock.lock();
      if (done) return Wait::kWhole;
    }
    if (world_->dead.size() != dead_seen_) {
      share_out();
      if (cause_) return *cause_;
      return Wait::kChanged;
    }
    if (deadline.passed())
      return Error{
          ErrorKind::kTimedOut,
          "exchange: transaction " + std::to_string(table_.txn.value()) + " not whole in time"};
    world_->changed.wait_until(lock, deadline.point(), [&] { return world_->rings != seen; });
  }
}

}  // namespace

std::shared_ptr<FakeWorld> make_fake_world(const ExchangePlan& plan) {
  return std::make_shared<FakeWorld>(plan);
}

void fake_kill(FakeWorld& world, WorkerUid uid) {
  const std::lock_guard lock(world.mutex);
  world.dead.push_back(uid);
  world.ring();
}

std::unique_ptr<Exchange> make_fake_exchange(std::shared_ptr<FakeWorld> world, WorkerUid uid) {
  return std::make_unique<FakeExchange>(std::move(world), uid);
}

}  // namespace lockstep::comm
