#include "comm/shm/shared_plan.h"

#include <bit>
#include <string>
#include <type_traits>

#include "comm/group.h"

namespace lockstep::comm::shm {
namespace {

// visit(name, number) of each, in their order on the board; the buckets' come behind.
template <class BoardNumbers, class ExchangeNumbers, class Visit>
void each_number(BoardNumbers& board, ExchangeNumbers& plan, const Visit& visit) {
  visit("virtual workers of the board", board.virtual_workers);
  visit("sample ids of a share", board.ids_capacity);
  visit("transactions kept", board.ring);
  visit("transactions at an epoch's end", board.epoch_ends);
  visit("updates of a step", board.updates);
  visit("virtual workers", plan.virtual_workers);
  visit("the bits of the sums' scale", plan.scale);
  visit("bytes of buffers", plan.buffer_bytes);
  visit("bytes of a carried row", plan.row_bytes);
  visit("batches of an evaluation", plan.eval_items);
  visit("words of notes", plan.note_words);
  visit("bytes of the state", plan.state_bytes);
  visit("hosts", plan.hosts);
  visit("bytes of a chunk", plan.chunk_bytes);
  visit("bytes of the board", plan.board_bytes);
  visit("the exchange's place", plan.offset);
}

template <class Bucket, class Visit>
void each_number_of_bucket(std::size_t b, Bucket& bucket, const Visit& visit) {
  const std::string of = " of bucket " + std::to_string(b);
  visit("dtype" + of, bucket.dtype);
  visit("elements" + of, bucket.count);
}

template <class Number>
std::uint64_t to_word(Number number) {
  if constexpr (std::is_same_v<Number, float>)
    return std::bit_cast<std::uint32_t>(number);
  else
    return static_cast<std::uint64_t>(number);
}

template <class Number>
Number of_word(std::uint64_t word) {
  if constexpr (std::is_same_v<Number, float>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(word));
  else
    return static_cast<Number>(word);
}

// A number on the board is one more, as 0 says that there is none.
Status agree(coord::Word& word, const std::string& name, std::uint64_t mine) {
  std::uint64_t theirs = 0;
  if (word.compare_exchange_strong(theirs, mine + 1) || theirs == mine + 1) return {};
  return Error{ErrorKind::kUsage,
               "exchange: " + name + ": " + std::to_string(mine) + " in this worker, " +
                   std::to_string(theirs - 1) +
                   " in another; all workers must have the same model, optimizers, data and "
                   "options"};
}

std::uint64_t bytes_with(std::uint64_t buckets) {
  std::uint64_t words = 1;  // how many buckets
  SharedPlan any;
  BucketSpec bucket;
  each_number(any.board, any.exchange, [&](const char*, const auto&) { ++words; });
  each_number_of_bucket(0, bucket, [&](const std::string&, const auto&) { words += buckets; });
  return words * sizeof(coord::Word);
}

}  // namespace

std::uint64_t shared_plan_offset() { return shm_group_bytes(); }

std::uint64_t shared_plan_bytes(const ExchangePlan& plan) {
  return bytes_with(plan.buckets.size());
}

Status share_plan(const coord::Board& board, const ExchangePlan& plan) {
  const std::uint64_t place = board.data_offset() + plan.offset + shared_plan_offset();
  auto* word = reinterpret_cast<coord::Word*>(board.base() + place);
  Status agreed;
  const auto share = [&](const std::string& name, const auto& number) {
    if (agreed.ok()) agreed = agree(*word++, name, to_word(number));
  };
  each_number(board.plan(), plan, share);
  share("buckets", plan.buckets.size());
  for (std::size_t b = 0; b < plan.buckets.size(); ++b)
    each_number_of_bucket(b, plan.buckets[b], share);
  LOCKSTEP_TRY(agreed);
  std::uint64_t none = 0;
  board.header().exchange_plan.compare_exchange_strong(none, place);
  ring(board.header().link_bell);
  return {};
}

std::optional<SharedPlan> shared_plan(std::byte* base, std::uint64_t bytes) {
  const std::uint64_t place = coord::Board(base, {}).header().exchange_plan.load();
  if (place == 0 || place > bytes || bytes - place < bytes_with(0)) return std::nullopt;
  const auto* word = reinterpret_cast<const coord::Word*>(base + place);
  const auto take = [&](const std::string&, auto& number) {
    number = of_word<std::remove_reference_t<decltype(number)>>((word++)->load() - 1);
  };
  SharedPlan plan;
  each_number(plan.board, plan.exchange, take);
  std::uint64_t buckets = 0;
  take("buckets", buckets);
  if (buckets > bytes || bytes - place < bytes_with(buckets)) return std::nullopt;
  plan.exchange.buckets.resize(buckets);
  for (BucketSpec& bucket : plan.exchange.buckets) each_number_of_bucket(0, bucket, take);
  return plan;
}

}  // namespace lockstep::comm::shm
