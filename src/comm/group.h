// Plain collectives among the members of one generation, over bytes and element types. Failure is
// sticky: once a member died, or abort() was called, every pending and later call returns the first
// cause. A new generation needs a new Group.
//
// All members must call the same collectives in the same order with the same sizes and types (a
// mismatch is an error that names both). Ownership: the caller's buffers, any alignment, any size
// including 0.
// Threads: one at a time, except abort().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/deadline.h"
#include "comm/exchange.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::comm {

// The caller's own number for an element type, 0 for bytes: compared among members, for the rest of
// no meaning here.
using ElementKind = std::uint8_t;

class Group {
 public:
  virtual ~Group() = default;
  virtual Rank rank() const = 0;
  virtual int world_size() const = 0;
  virtual Generation generation() const = 0;

  // In place; the sum along the fixed tree over ranks (V = W), element by element, not scaled.
  virtual Status all_reduce(std::span<std::byte> data, DType dtype, Deadline deadline) = 0;
  virtual Status broadcast(std::span<std::byte> data, ElementKind kind, Rank root,
                           Deadline deadline) = 0;
  // `all` holds world_size × mine.size() bytes, in rank order.
  virtual Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                            ElementKind kind, Deadline deadline) = 0;
  virtual Status barrier(Deadline deadline) = 0;

  // Any thread; this member's calls return the cause, as given. Peers learn of it by their own
  // abort() or deadline.
  virtual void abort(Error cause) = 0;
  virtual Status status() const = 0;
};

// Bytes of shared memory that a group needs (staging and sequence words; sparse), all zero at
// first. On the board it is board.data(): the first bytes of the engine's data are kept for it.
std::uint64_t shm_group_bytes();
// `memory`: the group's area, mapped by all members, 4096-aligned; zero, or used by earlier
// generations.
std::unique_ptr<Group> make_shm_group(coord::Board board, std::byte* memory,
                                      const coord::Table& table, WorkerUid self);

class FakeGroupWorld;
std::shared_ptr<FakeGroupWorld> make_fake_group_world(const coord::Table& table);
void fake_kill(FakeGroupWorld& world, WorkerUid uid);
std::unique_ptr<Group> make_fake_group(std::shared_ptr<FakeGroupWorld> world, WorkerUid self);

}  // namespace lockstep::comm
