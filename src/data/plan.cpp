#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>

#include "base/errors.h"
#include "base/guard.h"
#include "base/suggest.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::array<std::pair<Shuffle, const char*>, 6> kNames = {{
    {Shuffle::kSequential, "sequential"},
    {Shuffle::kDistributed, "distributed"},
    {Shuffle::kReshuffle, "reshuffle"},
    {Shuffle::kDataLoader, "dataloader"},
    {Shuffle::kLegacy, "legacy"},
    {Shuffle::kRows, "rows"},
}};

bool one_process(Shuffle shuffle) {
  return shuffle == Shuffle::kDataLoader || shuffle == Shuffle::kLegacy;
}

DistributedSampler sampler_of(const DataPlan& plan) {
  return {.dataset_size = plan.dataset_size,
          .num_replicas = plan.virtual_workers,
          .shuffle = plan.shuffle != Shuffle::kSequential,
          .seed = plan.seed,
          .drop_last = plan.drop_last};
}

// Threads: safe. An epoch's order is computed under the lock: whoever comes second needs it too.
class CachedOrder final : public DataOrder {
 public:
  explicit CachedOrder(DataPlan plan) : plan_(std::move(plan)) {}

  // One-process orders: checks the state and makes the generator that draws them.
  Status start() {
    if (!one_process(plan_.shuffle)) return {};
    return guarded("data order", ErrorKind::kInternal, [&]() -> Status {
      generator_ = at::detail::createCPUGenerator();
      return set_generator_state(generator_, plan_.generator_state);
    });
  }

  const DataPlan& plan() const override { return plan_; }

  Result<Ids> ids(const Cursor& at, std::int64_t v) override {
    if (at.step < 0 || at.step >= plan_.steps_per_epoch())
      return misuse("data: step is " + std::to_string(at.step) + ", must be 0 to " +
                    std::to_string(plan_.steps_per_epoch() - 1) + " (steps per epoch - 1)");
    if (v < 0 || v >= plan_.virtual_workers)
      return misuse("data: virtual worker is " + std::to_string(v) + ", must be 0 to " +
                    std::to_string(plan_.virtual_workers - 1));
    Ids ids(static_cast<std::size_t>(plan_.batch_at(at.step)));
    const std::int64_t first = at.step * plan_.batch_size;
    if (plan_.shuffle == Shuffle::kRows) {
      std::iota(ids.begin(), ids.end(), v * plan_.samples_per_worker() + first);
      return ids;
    }
    LOCKSTEP_ASSIGN(const std::shared_ptr<const Ids> order, epoch_order(at.epoch));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = (*order)[static_cast<std::size_t>(
          (first + static_cast<std::int64_t>(i)) * plan_.virtual_workers + v)];
    return ids;
  }

 private:
  struct Epoch {
    std::uint64_t number;
    std::shared_ptr<const Ids> order;
  };

  Result<std::shared_ptr<const Ids>> epoch_order(std::uint64_t epoch) {
    if (plan_.shuffle == Shuffle::kDistributed || plan_.shuffle == Shuffle::kSequential) epoch = 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Epoch& known : known_)
      if (known.number == epoch) return known.order;
    LOCKSTEP_ASSIGN(
        Ids ids, one_process(plan_.shuffle) ? drawn(epoch) : sampler_of(plan_).whole_order(epoch));
    known_.push_front({epoch, std::make_shared<const Ids>(std::move(ids))});
    if (known_.size() > kKept) known_.pop_back();
    return known_.front().order;
  }

  // A generator only goes forward: an earlier epoch starts again from the plan's state.
  Result<Ids> drawn(std::uint64_t epoch) {
    return guarded("data order", ErrorKind::kInternal, [&]() -> Result<Ids> {
      if (epoch < next_) {
        LOCKSTEP_TRY(set_generator_state(generator_, plan_.generator_state));
        next_ = 0;
      }
      Ids ids;
      for (; next_ <= epoch; ++next_)
        ids = plan_.shuffle == Shuffle::kLegacy ? legacy_order(generator_, plan_.dataset_size)
                                                : dataloader_order(generator_, plan_.dataset_size);
      return ids;
    });
  }

  // The last step's epoch and the next, which prefetching looks into.
  static constexpr std::size_t kKept = 2;

  const DataPlan plan_;
  std::mutex mutex_;
  std::deque<Epoch> known_;  // newest first
  at::Generator generator_;
  std::uint64_t next_ = 0;  // the epoch that generator_ draws next
};

}  // namespace

const char* to_string(Shuffle shuffle) {
  for (const auto& [value, name] : kNames)
    if (value == shuffle) return name;
  return "?";
}

Result<Shuffle> parse_shuffle(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [value, text] : kNames) {
    if (name == text) return value;
    known.emplace_back(text);
  }
  return misuse("unknown shuffle '" + std::string(name) +
                "'; known: sequential, distributed, reshuffle, dataloader, legacy, rows" +
                suggestion(name, known));
}

Status DataPlan::check() const {
  LOCKSTEP_TRY(sampler_of(*this).check());
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (batch_size < 1 || batch_size > kMost)
    return misuse("data plan: batch size of a virtual worker is " + std::to_string(batch_size) +
                  ", must be 1 to " + std::to_string(kMost));
  if (one_process(shuffle) && virtual_workers != 1)
    return misuse(std::string("data plan: shuffle '") + to_string(shuffle) +
                  "' is the order of one process, but there are " +
                  std::to_string(virtual_workers) +
                  " virtual workers; take 'reshuffle' or one virtual worker");
  if (one_process(shuffle) && generator_state.empty())
    return misuse(std::string("data plan: shuffle '") + to_string(shuffle) +
                  "' needs generator_state, the default generator's state after the model was made "
                  "(default_generator_state())");
  if (steps_per_epoch() < 1)
    return misuse("data plan: no step in an epoch: " + std::to_string(dataset_size) + " samples, " +
                  std::to_string(virtual_workers) + " virtual workers of batch " +
                  std::to_string(batch_size) +
                  ", remainders dropped; take fewer workers, a smaller batch, or drop nothing");
  return {};
}

std::int64_t DataPlan::samples_per_worker() const {
  return shuffle == Shuffle::kRows ? dataset_size / virtual_workers
                                   : sampler_of(*this).num_samples();
}

std::int64_t DataPlan::steps_per_epoch() const {
  const std::int64_t n = samples_per_worker();
  return drop_last_batch ? n / batch_size : (n + batch_size - 1) / batch_size;
}

std::int64_t DataPlan::batch_at(std::int64_t step) const {
  return std::min(batch_size, samples_per_worker() - step * batch_size);
}

std::uint64_t DataPlan::global_step(const Cursor& at) const {
  return at.epoch * static_cast<std::uint64_t>(steps_per_epoch()) +
         static_cast<std::uint64_t>(at.step);
}

Cursor DataPlan::cursor(std::uint64_t global_step) const {
  const auto steps = static_cast<std::uint64_t>(steps_per_epoch());
  return {global_step / steps, static_cast<std::int64_t>(global_step % steps)};
}

Result<std::shared_ptr<DataOrder>> DataOrder::make(DataPlan plan) {
  LOCKSTEP_TRY(plan.check());
  auto order = std::make_shared<CachedOrder>(std::move(plan));
  LOCKSTEP_TRY(order->start());
  return std::shared_ptr<DataOrder>(std::move(order));
}

}  // namespace lockstep::data
