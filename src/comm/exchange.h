// The fixed-tree sum of one transaction, over V virtual workers held by any W <= V members, that
// survives members. docs/design/protocol.md has the protocol, arithmetic.md there the arithmetic.
//
// Life of an exchange (one thread per member calls, in this order, for each table.txn = t):
//
//   begin(table)           members, shares (begin_evaluation at an epoch's end)
//   piece(leaf, bucket) or lend() … publish()
//                          as backward produces them, bucket by bucket; progress() now and then
//   leave_out(bucket)      those of which this transaction has no sum
//   wait()                 kWhole: every chunk of every sum is there; kChanged: somebody died, see
//                          ownership(): compute what was adopted, publish it, wait again
//   sum(bucket)            read-only, until this member publishes for t + 1
//
// Invariants:
//
//  1. A piece has one writer and stays as it is from publish() until the transaction commits.
//  2. A chunk of a sum is written by its owner alone; once marked it is never written again in that
//     transaction.
//  3. A sum of t + 1 is begun only when pieces of every live owner for that bucket are there, so
//     nobody still reads t.
//  4. A bucket that is left out has its chunks marked as if summed, and nobody reads them:
//     left_out() tells the one from the other.
//  5. Every node is left + right in the bucket's dtype (bf16 and fp16: summed in fp32, rounded to
//     the dtype), whoever computes it; the root is multiplied once by `scale` (fp32 number; for
//     fp64 buckets converted to double).
//
// Errors: abort()'s cause, and kAborted when the agent lists this member as dead: sticky, every
// later call returns the first. kTimedOut, with what was missing and whose it is: one may wait
// again.
//
// Threads: one thread per member, except abort(), which any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "coord/board.h"
#include "coord/ownership.h"
#include "lockstep/status.h"

namespace lockstep::comm {

enum class DType : std::uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16 };
std::size_t size_of(DType dtype);  // bytes of one element

struct BucketSpec {
  DType dtype = DType::kFloat32;
  std::uint64_t count = 0;  // elements
  friend bool operator==(const BucketSpec&, const BucketSpec&) = default;
};

// The same in all members of a run, as they compare (shm/shared_plan.h); the layout of the shared
// memory follows from it.
struct ExchangePlan {
  std::uint32_t virtual_workers = 1;
  std::vector<BucketSpec> buckets;
  float scale = 1.0F;                      // fp32 number nearest 1/V for a mean
  std::uint64_t buffer_bytes = 0;          // virtual worker 0's buffers, published with each step
  std::uint64_t row_bytes = 0;             // what each virtual worker carries to its next step
  std::uint32_t eval_items = 0;            // most batches of one evaluation
  std::uint64_t note_words = 0;            // of each virtual worker's share; see notes()
  std::uint64_t state_bytes = 0;           // a copy of the state, for newcomers
  std::uint32_t hosts = 1;                 // that the run may have: places for what each supplies
  std::uint32_t chunk_bytes = 128 * 1024;  // of a sum; a multiple of 64
  std::uint64_t board_bytes = coord::kBoardBytes;  // all that is mapped of the board
  std::uint64_t offset = 0;  // of this exchange in the engine's memory, where a run has several
  friend bool operator==(const ExchangePlan&, const ExchangePlan&) = default;
};

// What one evaluation batch gave. Added in batch order, in fp64, by everyone.
struct EvalCell {
  coord::Word mark;  // txn + 1
  double loss_sum;
  double correct;
  std::uint64_t count;
  std::uint64_t left_out;  // samples
  double seconds;          // of its epoch, so far
  double run_seconds;      // of the run
};

enum class Wait { kWhole, kChanged };

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Starts transaction table.txn as a step: V items, sums. This member need not be in the table (a
  // newcomer that joins with no share). kUsage: more members than virtual workers, or a slot that
  // the layout has no room for.
  virtual Status begin(const coord::Table& table) = 0;
  // Starts it as an evaluation of `items` batches (any number up to plan.eval_items, V too),
  // without sums.
  virtual Status begin_evaluation(const coord::Table& table, std::uint32_t items) = 0;

  // Under the dead list as of begin() or the last kChanged.
  virtual const coord::Ownership& ownership() const = 0;
  virtual std::uint32_t self() const = 0;  // index in the table; table size if not in it

  // This member's memory for the piece whose first leaf is `leaf`; 64-byte aligned, count ×
  // size_of(dtype) bytes.
  virtual std::span<std::byte> piece(std::uint32_t leaf, std::uint32_t bucket) = 0;
  // Puts `source` at `offset` (bytes, a multiple of 64) into that piece. It may be read in place:
  // it stays as it is until wait() has returned kWhole, or the next begin(). Default: copied.
  virtual void lend(std::uint32_t leaf, std::uint32_t bucket, std::uint64_t offset,
                    std::span<const std::byte> source);
  // The piece is complete. `node`: one of this member's in ownership().pieces().
  virtual void publish(coord::Node node, std::uint32_t bucket) = 0;
  // This transaction has no sum of `bucket`: nobody publishes a piece of it, and this member marks
  // those chunks of it that are its own, over several hosts once all shares' records are there. All
  // members leave out the same ones; each does once what they know that from (a share's record) is
  // marked, and again after kChanged.
  virtual void leave_out(std::uint32_t bucket) = 0;
  // Whether somebody has left it out of this transaction; nullopt: the others, who do not wait for
  // this member any more, are so far ahead that nobody knows.
  virtual std::optional<bool> left_out(std::uint32_t bucket) const = 0;
  // Sums those chunks that are this member's and ready. Never blocks.
  virtual void progress() = 0;
  // progress() until every chunk of every bucket is marked and also() holds, or the dead list has
  // grown. also() must be cheap; it is checked after each ring of this member's bell. At kChanged
  // ownership() is the new one. What was marked before a death counts: kWhole is checked first.
  // `meanwhile` is called each time around, whatever is there; its error ends the wait.
  virtual Result<Wait> wait(const std::function<bool()>& also,
                            const std::function<Status()>& meanwhile, Deadline deadline) = 0;
  Result<Wait> wait(const std::function<bool()>& also, Deadline deadline) {
    return wait(
        also, [] { return Status(); }, deadline);
  }
  virtual std::span<const std::byte> sum(std::uint32_t bucket) const = 0;
  // Whether sum() has no infinity and no NaN: the same answer in all members, as long as sum() may
  // be read. Found where the sums are made, so asking costs nothing.
  virtual bool finite(std::uint32_t bucket) const = 0;

  // Rings all other live members' bells: a word of theirs to look at has changed.
  // Newcomers in the agent's proposal are rung too, and whoever carries marks to other hosts.
  virtual void ring_members() = 0;
  // The latter alone, if there is one: something is marked that nobody here waits for yet.
  virtual void ring_link() {}

  // Virtual worker 0's buffers of this transaction: written by its owner, then marked (and all
  // bells rung). They stay readable until every member has applied the transaction.
  virtual std::span<std::byte> buffers() = 0;
  virtual void publish_buffers() = 0;
  virtual bool buffers_published() const = 0;

  // What virtual worker `v` carries from this transaction to its next: row_bytes, written by the
  // share's owner and marked before the share's record is, so that whoever looks for that finds
  // this. Nobody is rung. Readable as long as buffers() are. No bytes: no marks either.
  virtual std::span<std::byte> row(std::uint32_t v) = 0;
  virtual void publish_row(std::uint32_t v) = 0;
  virtual bool row_published(std::uint32_t v) const = 0;

  // Of this transaction: what others write in the next ones is elsewhere.
  virtual EvalCell& eval(std::uint32_t item) = 0;

  // note_words words of this transaction's share of virtual worker `v`, for what its members
  // compare beside its sum. What is in them is of an earlier transaction until somebody says
  // otherwise, by a mark.
  virtual std::span<coord::Word> notes(std::uint32_t v) = 0;

  // Of a run on several hosts: txn + 1 once an older worker, on whichever host, has computed this
  // transaction's share of that virtual worker too, which a newcomer has computed.
  virtual coord::Word& judged_mark(std::uint32_t v) = 0;

  // One region per run that a donor fills for newcomers; state_bytes long.
  virtual std::span<std::byte> heal_region() = 0;
  // txn + 1 of the copy it holds; 0 while it is being written.
  virtual coord::Word& heal_mark() = 0;

  // Of somebody who is to come in, on whichever host, as marks (txn + 1): the state that its host
  // has a copy of for it, and the one that it has loaded; 0: none.
  struct Newcomer {
    std::uint64_t copied = 0, ready = 0;
  };
  virtual Newcomer newcomer(const coord::Member& member) const = 0;

  // Faults in this member's pages: pieces of its block and one death's worth, others' that it sums,
  // sums; with `heal` the heal region too. Before the first begin the block is guessed from the
  // board's newest table, as if this member were its last; with no table yet, the first begin does
  // the pieces.
  virtual void prefault(bool heal) = 0;

  // First byte of the engine's memory behind this exchange: the next one's plan.offset.
  virtual std::uint64_t end() const = 0;

  // Any thread. Every pending and later wait() and begin() returns the first cause, as given.
  virtual void abort(Error cause) = 0;
};

// The shared-memory engine (shm/). `board` must stay mapped. `slot`: this member's. Spins only
// while the members on this host are no more than the usable CPUs. A plan that does not fit into
// the board, or is not the other members', is told by the first begin() (kUsage).
std::unique_ptr<Exchange> make_shm_exchange(coord::Board board, Slot slot, WorkerUid uid,
                                            const ExchangePlan& plan);

// The reference engine for tests (fake/): the same contract for threads of one process, written the
// plainest way: a map of pieces under a mutex, sums by recursion over the tree. World shared by the
// members:
class FakeWorld;
std::shared_ptr<FakeWorld> make_fake_world(const ExchangePlan& plan);
// The death of a member, as the agent would announce it.
void fake_kill(FakeWorld& world, WorkerUid uid);
std::unique_ptr<Exchange> make_fake_exchange(std::shared_ptr<FakeWorld> world, WorkerUid uid);

}  // namespace lockstep::comm
