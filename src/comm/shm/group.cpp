// The group over shared memory. Each collective is cut into segments; each member stages its part
// of a segment in its own area, double-buffered, and counts three things: segments filled, reduced
// (all_reduce: this rank's slice of the sum), and taken (read by this member). Counts go on over
// the generation and carry its number, so that those of an earlier generation never match. A half
// of an area is filled again once everybody has taken what was in it.
#include "comm/group.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "comm/call.h"
#include "comm/reduce.h"
#include "comm/shm/wait.h"

namespace lockstep::comm {
namespace {

using coord::Word;

constexpr std::size_t kSegment = 128 * 1024;
constexpr std::size_t kLine = 64;
// Up to here each rank sums everything itself: one wait less, the same bits.
constexpr std::size_t kDirectBytes = 16 * 1024;

struct alignas(4096) Area {
  alignas(kLine) Word filled;
  alignas(kLine) Word reduced;
  alignas(kLine) Word taken;
  struct alignas(kLine) Posted {
    Word call, bytes;
  } posted[2];
  alignas(4096) std::byte in[2][kSegment];
  std::byte out[2][kSegment];
};
using Counter = Word Area::*;

std::uint64_t pack(const Call& call) {
  return static_cast<std::uint64_t>(call.op) | static_cast<std::uint64_t>(call.dtype) << 8 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 16 |
         static_cast<std::uint64_t>(call.kind) << 48;
}

Call unpack(const Area::Posted& posted) {
  const std::uint64_t word = posted.call.load(std::memory_order_relaxed);
  return {static_cast<Op>(word & 0xff), static_cast<DType>(word >> 8 & 0xff),
          static_cast<int>(static_cast<std::uint32_t>(word >> 16)),
          posted.bytes.load(std::memory_order_relaxed), static_cast<ElementKind>(word >> 48)};
}

class ShmGroup final : public Group {
 public:
  ShmGroup(coord::Board board, std::byte* memory, const coord::Table& table, WorkerUid self);

  Rank rank() const override { return Rank(static_cast<int>(rank_)); }
  int world_size() const override { return static_cast<int>(areas_.size()); }
  Generation generation() const override { return table_.generation; }

  Status all_reduce(std::span<std::byte> data, DType dtype, Deadline deadline) override;
  Status broadcast(std::span<std::byte> data, ElementKind kind, Rank root,
                   Deadline deadline) override;
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all, ElementKind kind,
                    Deadline deadline) override;
  Status barrier(Deadline deadline) override;

  void abort(Error cause) override {
    cause_.fail(std::move(cause));
    ring(bell());
  }
  Status status() const override { return cause_.status(); }

 private:
  // One segment: bytes [first, first + size) of a member's data, in half `half` of the areas.
  struct Segment {
    std::size_t first, size;
    std::size_t half;
  };
  using Fill = std::function<void(const Segment&)>;
  using Take = std::function<void(const Segment&)>;

  Doorbell& bell() const { return board_.slot(table_.members[rank_].slot).bell; }
  Area& own() const { return *areas_[rank_]; }
  bool reached(const Word& counter, std::uint64_t count) const;
  void post(Counter counter, std::uint64_t count);
  Status await(Counter counter, std::uint64_t count, const Call& call, Deadline deadline);
  void look_for_dead();
  Status all_alive();
  Status none_lost(Counter counter, std::uint64_t count);
  Status fail_for(std::size_t r);
  Status run(const Call& call, std::uint64_t gathered, Deadline deadline, const Fill& fill,
             const Take& take);
  Status fill_segment(std::uint64_t index, const Call& call, Deadline deadline, const Fill& fill);
  Status take_segment(std::uint64_t index, const Call& call, Deadline deadline, const Take& take);
  Status compare(const Call& call, std::size_t half);
  Segment segment(std::uint64_t index, std::uint64_t bytes) const;
  void sum(DType dtype, std::size_t half, std::size_t first, std::size_t size);
  std::size_t slice(std::size_t rank, std::size_t size) const;

  coord::Board board_;
  coord::Table table_;
  std::size_t rank_ = 0;
  std::vector<Area*> areas_;  // by rank
  TreeSum tree_;
  std::vector<const std::byte*> inputs_;
  std::uint32_t cpus_;
  shm::FirstCause cause_;
  std::uint64_t dead_seen_ = 0;
  std::vector<std::size_t> dead_ranks_;
  std::uint64_t segments_ = 0;  // of earlier collectives
  std::uint64_t calls_ = 0;
};

ShmGroup::ShmGroup(coord::Board board, std::byte* memory, const coord::Table& table, WorkerUid self)
    : board_(board),
      table_(table),
      inputs_(table.members.size()),
      cpus_(static_cast<std::uint32_t>(usable_cpus())) {
  std::vector<coord::Node> leaves;
  for (std::uint32_t r = 0; r < table.members.size(); ++r) {
    const coord::Member& member = table.members[r];
    if (member.uid == self) rank_ = r;
    areas_.push_back(reinterpret_cast<Area*>(memory) + member.slot.value());
    leaves.push_back({0, r});
  }
  assert(rank_ < table.members.size() && table.members[rank_].uid == self);
  const auto count = static_cast<std::uint32_t>(leaves.size());
  tree_ = TreeSum(leaves, root_of(count), count);
}

bool ShmGroup::reached(const Word& counter, std::uint64_t count) const {
  const std::uint64_t value = counter.load(std::memory_order_acquire);
  // Counts go round after 2^32; members are never half as far apart.
  const auto ahead = static_cast<std::int32_t>(static_cast<std::uint32_t>(value) -
                                               static_cast<std::uint32_t>(count));
  return value >> 32 == (table_.generation.value() & 0xffffffffU) && ahead >= 0;
}

void ShmGroup::post(Counter counter, std::uint64_t count) {
  (own().*counter)
      .store(table_.generation.value() << 32 | static_cast<std::uint32_t>(count),
             std::memory_order_release);
  for (std::size_t r = 0; r < areas_.size(); ++r)
    if (r != rank_) ring(board_.slot(table_.members[r].slot).bell);
}

void ShmGroup::look_for_dead() {
  if (board_.header().dead_count.load(std::memory_order_acquire) == dead_seen_) return;
  const std::vector<WorkerUid> dead = board_.dead();
  dead_seen_ = dead.size();
  dead_ranks_.clear();
  for (const WorkerUid uid : dead)
    for (std::size_t r = 0; r < areas_.size(); ++r)
      if (table_.members[r].uid == uid) dead_ranks_.push_back(r);
}

Status ShmGroup::fail_for(std::size_t r) {
  cause_.fail(
      {ErrorKind::kPeerLost, "group of generation " + std::to_string(table_.generation.value()) +
                                 ": rank " + std::to_string(r) + " (worker " +
                                 std::to_string(table_.members[r].uid.value()) + ") has ended"});
  return cause_.status();
}

Status ShmGroup::all_alive() {
  LOCKSTEP_TRY(cause_.status());
  look_for_dead();
  return dead_ranks_.empty() ? Status() : fail_for(dead_ranks_.front());
}

// A member that died after its part is no loss to this wait: its counts were there before its death
// was.
Status ShmGroup::none_lost(Counter counter, std::uint64_t count) {
  LOCKSTEP_TRY(cause_.status());
  look_for_dead();
  for (const std::size_t r : dead_ranks_)
    if (!reached(areas_[r]->*counter, count)) return fail_for(r);
  return {};
}

// Until every member's counter has reached count.
Status ShmGroup::await(Counter counter, std::uint64_t count, const Call& call, Deadline deadline) {
  for (std::size_t r = 0; r < areas_.size(); ++r) {
    for (;;) {
      const std::uint32_t seen = bell().rings.load(std::memory_order_acquire);
      if (reached(areas_[r]->*counter, count)) break;
      LOCKSTEP_TRY(none_lost(counter, count));
      if (reached(areas_[r]->*counter, count)) break;
      if (deadline.passed()) {
        cause_.fail({ErrorKind::kTimedOut,
                     "group of generation " + std::to_string(table_.generation.value()) +
                         ": rank " + std::to_string(r) + " (worker " +
                         std::to_string(table_.members[r].uid.value()) + ") did not come to " +
                         to_string(call) + " (collective number " + std::to_string(calls_) +
                         ") in time"});
        return cause_.status();
      }
      shm::await_ring(bell(), seen, areas_.size() <= cpus_, deadline);
    }
  }
  return {};
}

ShmGroup::Segment ShmGroup::segment(std::uint64_t index, std::uint64_t bytes) const {
  const std::size_t first = index * kSegment;
  return {first, std::min<std::size_t>(kSegment, bytes - first), (segments_ + index) % 2};
}

Status ShmGroup::run(const Call& call, std::uint64_t gathered, Deadline deadline, const Fill& fill,
                     const Take& take) {
  LOCKSTEP_TRY(all_alive());
  LOCKSTEP_TRY(check_call(call, world_size(), gathered));
  const std::uint64_t segments = std::max<std::uint64_t>(1, (call.bytes + kSegment - 1) / kSegment);
  LOCKSTEP_TRY(fill_segment(0, call, deadline, fill));
  for (std::uint64_t i = 0; i < segments; ++i) {
    if (i + 1 < segments) LOCKSTEP_TRY(fill_segment(i + 1, call, deadline, fill));
    LOCKSTEP_TRY(take_segment(i, call, deadline, take));
  }
  segments_ += segments;
  ++calls_;
  return {};
}

Status ShmGroup::fill_segment(std::uint64_t index, const Call& call, Deadline deadline,
                              const Fill& fill) {
  const std::uint64_t number = segments_ + index;
  const Segment part = segment(index, call.bytes);
  if (number >= 2) LOCKSTEP_TRY(await(&Area::taken, number - 1, call, deadline));
  fill(part);
  own().posted[part.half].call.store(pack(call), std::memory_order_relaxed);
  own().posted[part.half].bytes.store(call.bytes, std::memory_order_relaxed);
  post(&Area::filled, number + 1);
  return {};
}

Status ShmGroup::take_segment(std::uint64_t index, const Call& call, Deadline deadline,
                              const Take& take) {
  const std::uint64_t number = segments_ + index;
  const Segment part = segment(index, call.bytes);
  LOCKSTEP_TRY(await(&Area::filled, number + 1, call, deadline));
  LOCKSTEP_TRY(compare(call, part.half));
  if (call.op == Op::kAllReduce && part.size > kDirectBytes) {
    const std::size_t first = slice(rank_, part.size);
    sum(call.dtype, part.half, first, slice(rank_ + 1, part.size) - first);
    post(&Area::reduced, number + 1);
    LOCKSTEP_TRY(await(&Area::reduced, number + 1, call, deadline));
  }
  take(part);
  post(&Area::taken, number + 1);
  return {};
}

// All members called the same.
Status ShmGroup::compare(const Call& call, std::size_t half) {
  for (std::size_t r = 0; r < areas_.size(); ++r) {
    const Call theirs = unpack(areas_[r]->posted[half]);
    if (theirs == call) continue;
    cause_.fail(mismatch(table_.generation.value(), calls_, static_cast<int>(rank_), call,
                         static_cast<int>(r), theirs));
    break;
  }
  return cause_.status();
}

// First byte of a rank's slice of a segment, whole lines.
std::size_t ShmGroup::slice(std::size_t rank, std::size_t size) const {
  const std::size_t lines = (size + kLine - 1) / kLine;
  return std::min(size, lines * rank / areas_.size() * kLine);
}

// Sums bytes [first, first + size) of all members' staged segments into this member's out.
void ShmGroup::sum(DType dtype, std::size_t half, std::size_t first, std::size_t size) {
  for (std::size_t r = 0; r < areas_.size(); ++r) inputs_[r] = areas_[r]->in[half] + first;
  tree_(dtype, inputs_, own().out[half] + first, size / size_of(dtype), 1.0F, false);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

Status ShmGroup::all_reduce(std::span<std::byte> data, DType dtype, Deadline deadline) {
  const auto fill = [&](const Segment& s) {
    copy_bytes(own().in[s.half], data.data() + s.first, s.size);
  };
  const auto take = [&](const Segment& s) {
    if (s.size <= kDirectBytes) {
      sum(dtype, s.half, 0, s.size);
      copy_bytes(data.data() + s.first, own().out[s.half], s.size);
      return;
    }
    for (std::size_t r = 0; r < areas_.size(); ++r) {
      const std::size_t first = slice(r, s.size);
      copy_bytes(data.data() + s.first + first, areas_[r]->out[s.half] + first,
                 slice(r + 1, s.size) - first);
    }
  };
  return run({Op::kAllReduce, dtype, 0, data.size()}, 0, deadline, fill, take);
}

Status ShmGroup::broadcast(std::span<std::byte> data, ElementKind kind, Rank root,
                           Deadline deadline) {
  const auto is_root = root == rank();
  const auto fill = [&](const Segment& s) {
    if (is_root) copy_bytes(own().in[s.half], data.data() + s.first, s.size);
  };
  const auto take = [&](const Segment& s) {
    if (!is_root)
      copy_bytes(data.data() + s.first, areas_[static_cast<std::size_t>(root.value())]->in[s.half],
                 s.size);
  };
  return run({Op::kBroadcast, DType::kFloat32, root.value(), data.size(), kind}, 0, deadline, fill,
             take);
}

Status ShmGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                            ElementKind kind, Deadline deadline) {
  const auto fill = [&](const Segment& s) {
    copy_bytes(own().in[s.half], mine.data() + s.first, s.size);
  };
  const auto take = [&](const Segment& s) {
    for (std::size_t r = 0; r < areas_.size(); ++r)
      copy_bytes(all.data() + r * mine.size() + s.first, areas_[r]->in[s.half], s.size);
  };
  return run({Op::kAllGather, DType::kFloat32, 0, mine.size(), kind}, all.size(), deadline, fill,
             take);
}

Status ShmGroup::barrier(Deadline deadline) {
  const auto nothing = [](const Segment&) {};
  return run({Op::kBarrier, DType::kFloat32, 0, 0}, 0, deadline, nothing, nothing);
}

}  // namespace

std::uint64_t shm_group_bytes() { return coord::kMaxSlots * sizeof(Area); }

std::unique_ptr<Group> make_shm_group(coord::Board board, std::byte* memory,
                                      const coord::Table& table, WorkerUid self) {
  return std::make_unique<ShmGroup>(board, memory, table, self);
}

}  // namespace lockstep::comm
