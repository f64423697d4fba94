// libtorch's own data sets in a run, as they are:
//
//   using namespace torch::data;
//   LOCKSTEP_ASSIGN(auto train_set, lockstep::data::from_torch(
//                                       datasets::MNIST("mnist")
//                                           .map(transforms::Normalize<>(0.1307, 0.3081))
//                                           .map(transforms::Stack<>())));
//
// For any type with random access and a known size: one of torch::data::datasets, a program's own
// derived from torch::data::datasets::Dataset, and what map() makes of them. Streams, chunks and
// stateful sets, whose order is their own, do not compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/data.h"
#include "lockstep/status.h"

namespace lockstep::data {
namespace torch_data {  // of from_torch()

// Rows of a batch of their own: [B, ...] of B tensors [...].
at::Tensor stacked(const std::vector<at::Tensor>& rows);
// kUsage unless the size is known, and at least 1.
Status check_size(std::optional<std::size_t> size);
Result<std::vector<std::size_t>> indices_of(std::span<const std::int64_t> ids, std::int64_t size);
// Targets may be undefined: [B, 0]. kBadData where there are more rows than ids, or fewer.
Result<Batch> batch_of(at::Tensor inputs, at::Tensor targets, std::span<const std::int64_t> ids);

template <class Example>
constexpr bool kHasTarget = !std::is_void_v<typename Example::TargetType>;

template <class Example>
at::Tensor target_of(const Example& example) {
  if constexpr (kHasTarget<Example>)
    return example.target;
  else
    return {};
}

// One example, already a batch, as behind a Stack.
template <class Example>
Result<Batch> collated(const Example& batch, std::span<const std::int64_t> ids) {
  return batch_of(batch.data, target_of(batch), ids);
}

template <class Example>
Result<Batch> collated(const std::vector<Example>& examples, std::span<const std::int64_t> ids) {
  std::vector<at::Tensor> inputs, targets;
  for (const Example& example : examples) {
    inputs.push_back(example.data);
    if (const at::Tensor target = target_of(example); target.defined()) targets.push_back(target);
  }
  return batch_of(stacked(inputs), targets.empty() ? at::Tensor() : stacked(targets), ids);
}

template <class Set>
class FromTorch final : public Dataset {
 public:
  explicit FromTorch(Set set)
      : first_(std::move(set)), size_(static_cast<std::int64_t>(*first_.size())) {}

  std::int64_t size() const override { return size_; }

  Result<Batch> get(std::span<const std::int64_t> ids, const Pass&) const override {
    LOCKSTEP_ASSIGN(std::vector<std::size_t> indices, indices_of(ids, size_));
    std::unique_ptr<Set> set = take();
    Result<Batch> batch = collated(set->get_batch(indices), ids);
    give_back(std::move(set));
    return batch;
  }

 private:
  std::unique_ptr<Set> take() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Set>(first_);
    std::unique_ptr<Set> set = std::move(idle_.back());
    idle_.pop_back();
    return set;
  }
  void give_back(std::unique_ptr<Set> set) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(set));
  }

  const Set first_;
  const std::int64_t size_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Set>> idle_;  // get_batch() is not const: one for each thread
};

}  // namespace torch_data

// `set` is copied for each thread that reads at the same time (RunOptions::prefetch_threads), as
// its get_batch() is not const; tensors in it are shared by the copies. Examples without a Stack
// are stacked. Without targets, targets are [B, 0]. What a transform draws from PyTorch's default
// generator is as exact as the rest, and needs prefetch_threads 0 (Dataset); a generator of its own
// is not: the rehearsal of a run's first step finds that.
// Errors: kUsage for a size that is not known or 0. What get_batch() throws is the run's error.
template <class Set>
Result<std::shared_ptr<const Dataset>> from_torch(Set set) {
  static_assert(std::is_same_v<typename Set::BatchRequestType, c10::ArrayRef<std::size_t>>,
                "from_torch() needs a data set with random access: a stream or a ChunkDataset "
                "reads in an order of its own, and a share could not be computed again");
  static_assert(!Set::is_stateful, "from_torch() needs a data set without a state of its own");
  static_assert(std::is_copy_constructible_v<Set>,
                "from_torch() copies the data set for each thread that reads");
  static_assert(
      !requires(Set & shared) { shared.operator->(); },
      "from_torch() copies the data set for each thread that reads; of a "
      "SharedBatchDataset there is one for all: give what it was made of");
  LOCKSTEP_TRY(torch_data::check_size(set.size()));
  return std::shared_ptr<const Dataset>(
      std::make_shared<torch_data::FromTorch<Set>>(std::move(set)));
}

}  // namespace lockstep::data
