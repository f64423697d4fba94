// One member's way through a step, as the trainer takes it, with a point at which it may stop for
// good.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "conformance/oracle.h"

namespace lockstep::conformance {

using namespace std::chrono_literals;

inline Deadline soon() { return Deadline::in(20s); }

// Where a member dies in a step.
enum class Death {
  kNever,
  kBeforeBegin,
  kAfterSomePublished,  // half of the buckets of its first node
  kAfterAllPublished,
  kAfterSomeSums,  // one progress() after publishing: all, some or none of its chunks are marked
  kAfterWhole,
};

struct Work {
  comm::ExchangePlan plan;
  Values values = Values::kAdversarial;
  // Each step has sums of one of so many sets of buckets, in turn, and leaves out the others.
  std::uint64_t sets = 1;
  bool has_sum(Txn txn, std::uint32_t bucket) const { return bucket % sets == txn.value() % sets; }
};

inline void put(std::byte* to, DType dtype, std::uint64_t i, std::uint64_t bits) {
  std::memcpy(to + i * comm::size_of(dtype), &bits, comm::size_of(dtype));
}

// What a member has lent in a step; stays as it is until the step is whole.
using Lent = std::deque<std::vector<std::byte>>;

// Two of three buckets are lent, in two parts, the others written into the piece.
inline void publish_node(comm::Exchange& exchange, const Work& work, Txn txn, coord::Node node,
                         std::uint32_t bucket, Lent& lent) {
  const comm::BucketSpec& spec = work.plan.buckets[bucket];
  const std::uint32_t leaf = node.first_leaf();
  const std::span<std::byte> piece = exchange.piece(leaf, bucket);
  const bool lends = (bucket + leaf) % 3 != 0;
  std::byte* to = lends ? lent.emplace_back(piece.size()).data() : piece.data();
  for (std::uint64_t i = 0; i < spec.count; ++i)
    put(to, spec.dtype, i,
        node_value(work.values, spec.dtype, txn.value(), work.plan.virtual_workers, node, bucket,
                   i));
  if (lends) {
    const std::span<const std::byte> source = lent.back();
    const std::size_t cut = source.size() / 3 / 64 * 64;
    exchange.lend(leaf, bucket, 0, source.first(cut));
    exchange.lend(leaf, bucket, cut, source.subspan(cut));
  }
  exchange.publish(node, bucket);
}

// Publishes what this member owns and has not published yet; stops early after `most_buckets` of
// each node.
inline void publish_owned(comm::Exchange& exchange, const Work& work, Txn txn,
                          std::set<std::uint32_t>& done, std::size_t most_buckets, Lent& lent) {
  for (const coord::Piece& piece : exchange.ownership().pieces()) {
    if (piece.member != exchange.self() || !done.insert(piece.node.first_leaf()).second) continue;
    for (std::uint32_t b = 0; b < most_buckets; ++b) {
      if (!work.has_sum(txn, b)) continue;
      publish_node(exchange, work, txn, piece.node, b, lent);
      if (b % 2 == 1) exchange.progress();
    }
  }
}

inline void leave_out(comm::Exchange& exchange, const Work& work, Txn txn,
                      std::size_t most_buckets) {
  for (std::uint32_t b = 0; b < most_buckets; ++b)
    if (!work.has_sum(txn, b)) exchange.leave_out(b);
}

// True: the step is whole. False: died as asked.
inline bool take_step(comm::Exchange& exchange, const Work& work, const coord::Table& table,
                      Death death) {
  if (death == Death::kBeforeBegin) return false;
  const Status begun = exchange.begin(table);
  if (!begun.ok()) {
    ADD_FAILURE() << begun.error().message;
    return false;
  }
  Lent lent;
  std::set<std::uint32_t> done;
  const std::size_t buckets = work.plan.buckets.size();
  publish_owned(exchange, work, table.txn, done,
                death == Death::kAfterSomePublished ? buckets / 2 : buckets, lent);
  if (death == Death::kAfterSomePublished || death == Death::kAfterAllPublished) return false;
  if (death == Death::kAfterSomeSums) {
    exchange.progress();
    leave_out(exchange, work, table.txn, buckets / 2);
    return false;
  }
  for (;;) {
    leave_out(exchange, work, table.txn, buckets);
    exchange.ring_members();
    const Result<comm::Wait> outcome = exchange.wait([] { return true; }, soon());
    if (!outcome.ok()) {
      ADD_FAILURE() << outcome.error().message;
      return false;
    }
    if (*outcome == comm::Wait::kWhole) return death != Death::kAfterWhole;
    publish_owned(exchange, work, table.txn, done, buckets, lent);
  }
}

// The first wrong element in words; empty if the sums are right.
inline std::string check_sums(const comm::Exchange& exchange, const Work& work, Txn txn) {
  for (std::uint32_t b = 0; b < work.plan.buckets.size(); ++b) {
    const comm::BucketSpec& spec = work.plan.buckets[b];
    const std::size_t size = comm::size_of(spec.dtype);
    const std::span<const std::byte> sum = exchange.sum(b);
    if (exchange.left_out(b) != !work.has_sum(txn, b))
      return "bucket " + std::to_string(b) + " has a sum, or has none, against its set";
    if (!work.has_sum(txn, b)) continue;
    if (sum.size() != spec.count * size)
      return "bucket " + std::to_string(b) + " has the wrong size";
    bool finite = true;
    for (std::uint64_t i = 0; i < spec.count; ++i) {
      const std::uint64_t expected =
          scale(spec.dtype,
                node_value(work.values, spec.dtype, txn.value(), work.plan.virtual_workers,
                           root_of(work.plan.virtual_workers), b, i),
                work.plan.scale);
      finite = finite && is_finite(spec.dtype, expected);
      if (std::memcmp(sum.data() + i * size, &expected, size) != 0)
        return "transaction " + std::to_string(txn.value()) + ", bucket " + std::to_string(b) +
               ", element " + std::to_string(i) + " is wrong";
    }
    if (exchange.finite(b) != finite)
      return "transaction " + std::to_string(txn.value()) + ", bucket " + std::to_string(b) +
             " is said to be " + (finite ? "not finite" : "finite");
  }
  return "";
}

inline coord::Table table_of(Txn txn, std::uint32_t members, std::uint64_t generation = 1) {
  coord::Table table{txn, Generation(generation), coord::kNone, {}};
  for (std::uint32_t m = 0; m < members; ++m) table.members.push_back({WorkerUid(m + 1), Slot(m)});
  return table;
}

// Buckets of all dtypes and awkward sizes; with chunks of 64 bytes, from none to dozens of chunks.
inline comm::ExchangePlan awkward_plan(std::uint32_t virtual_workers) {
  comm::ExchangePlan plan;
  plan.virtual_workers = virtual_workers;
  plan.scale = 1.0F / static_cast<float>(virtual_workers);
  plan.chunk_bytes = 64;
  plan.buckets = {{DType::kFloat32, 0},   {DType::kFloat32, 1},   {DType::kFloat64, 3},
                  {DType::kBFloat16, 17}, {DType::kFloat16, 33},  {DType::kFloat32, 1001},
                  {DType::kFloat64, 77},  {DType::kBFloat16, 500}};
  return plan;
}

}  // namespace lockstep::conformance
