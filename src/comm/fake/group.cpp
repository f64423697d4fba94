// The reference group: members meet under one mutex, call by call.
#include "comm/group.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "comm/call.h"
#include "comm/fake/plain_sum.h"

namespace lockstep::comm {

// What the members brought to one collective.
struct Meeting {
  std::map<int, Call> calls;  // by rank
  std::map<int, fake::Bytes> data;
  std::size_t left = 0;
};

class FakeGroupWorld {
 public:
  explicit FakeGroupWorld(const coord::Table& members) : table(members) {}
  const coord::Table table;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Meeting> meetings;  // by number of the call
  std::optional<WorkerUid> dead;              // the first
};

namespace {

class FakeGroup final : public Group {
 public:
  FakeGroup(std::shared_ptr<FakeGroupWorld> world, WorkerUid self) : world_(std::move(world)) {
    const auto& members = world_->table.members;
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const coord::Member& m) { return m.uid == self; });
    assert(found != members.end());
    rank_ = static_cast<int>(found - members.begin());
  }

  Rank rank() const override { return Rank(rank_); }
  int world_size() const override { return static_cast<int>(world_->table.members.size()); }
  Generation generation() const override { return world_->table.generation; }

  Status all_reduce(std::span<std::byte> data, DType dtype, Deadline deadline) override {
    LOCKSTEP_ASSIGN(const auto all,
                    meet({Op::kAllReduce, dtype, 0, data.size()}, data, 0, deadline));
    const auto sum = fake::plain_sum(
        dtype, static_cast<std::uint32_t>(all.size()), [&](coord::Node node) -> const fake::Bytes* {
          return node.level == 0 ? &all.at(static_cast<int>(node.index)) : nullptr;
        });
    std::copy(sum.begin(), sum.end(), data.begin());
    return {};
  }

  Status broadcast(std::span<std::byte> data, ElementKind kind, Rank root,
                   Deadline deadline) override {
    LOCKSTEP_ASSIGN(const auto all,
                    meet({Op::kBroadcast, DType::kFloat32, root.value(), data.size(), kind}, data,
                         0, deadline));
    std::copy(all.at(root.value()).begin(), all.at(root.value()).end(), data.begin());
    return {};
  }

  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all, ElementKind kind,
                    Deadline deadline) override {
    LOCKSTEP_ASSIGN(const auto parts, meet({Op::kAllGather, DType::kFloat32, 0, mine.size(), kind},
                                           mine, all.size(), deadline));
    auto to = all.begin();
    for (const auto& [rank, part] : parts) to = std::copy(part.begin(), part.end(), to);
    return {};
  }

  Status barrier(Deadline deadline) override {
    LOCKSTEP_ASSIGN(const auto all, meet({Op::kBarrier, DType::kFloat32, 0, 0}, {}, 0, deadline));
    (void)all;
    return {};
  }

  void abort(Error cause) override {
    const std::lock_guard lock(world_->mutex);
    fail(std::move(cause));
    world_->changed.notify_all();
  }

  Status status() const override {
    const std::lock_guard lock(world_->mutex);
    return cause_ ? Status(*cause_) : Status();
  }

 private:
  Error fail(Error cause) {
    if (!cause_) cause_ = std::move(cause);
    return *cause_;
  }

  bool lost() {
    if (world_->dead && !cause_)
      fail({ErrorKind::kPeerLost, "group of generation " + std::to_string(generation().value()) +
                                      ": worker " + std::to_string(world_->dead->value()) +
                                      " died"});
    return cause_.has_value();
  }

  // All members' data, once all have come.
  Result<std::map<int, fake::Bytes>> meet(const Call& call, std::span<const std::byte> data,
                                          std::uint64_t gathered, Deadline deadline) {
    std::unique_lock lock(world_->mutex);
    if (lost()) return *cause_;
    LOCKSTEP_TRY(check_call(call, world_size(), gathered));
    const std::uint64_t number = calls_++;
    Meeting& meeting = world_->meetings[number];
    meeting.calls[rank_] = call;
    meeting.data[rank_] = fake::Bytes(data.begin(), data.end());
    world_->changed.notify_all();
    const std::size_t members = world_->table.members.size();
    const bool in_time = world_->changed.wait_until(
        lock, deadline.point(), [&] { return meeting.calls.size() == members || lost(); });
    if (meeting.calls.size() < members && cause_) return *cause_;
    if (!in_time)
      return fail({ErrorKind::kTimedOut, "group of generation " +
                                             std::to_string(generation().value()) +
                                             ": not all came to " + to_string(call) + " in time"});
    for (const auto& [other, theirs] : meeting.calls)
      if (!(theirs == call))
        return fail(mismatch(generation().value(), number, rank_, call, other, theirs));
    auto all = meeting.data;
    if (++meeting.left == members) world_->meetings.erase(number);
    return all;
  }

  const std::shared_ptr<FakeGroupWorld> world_;
  int rank_ = 0;
  std::uint64_t calls_ = 0;
  std::optional<Error> cause_;  // under the world's mutex
};

}  // namespace

std::shared_ptr<FakeGroupWorld> make_fake_group_world(const coord::Table& table) {
  return std::make_shared<FakeGroupWorld>(table);
}

void fake_kill(FakeGroupWorld& world, WorkerUid uid) {
  const std::lock_guard lock(world.mutex);
  if (!world.dead) world.dead = uid;
  world.changed.notify_all();
}

std::unique_ptr<Group> make_fake_group(std::shared_ptr<FakeGroupWorld> world, WorkerUid self) {
  return std::make_unique<FakeGroup>(std::move(world), self);
}

}  // namespace lockstep::comm
