#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <numeric>

#include "base/errors.h"
#include "base/guard.h"
#include "data/ids.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kMaxDatasetSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxReplicas = std::int64_t{1} << 20;

// What Python writes torch.empty((), dtype=torch.int64).random_(generator=generator).item().
std::int64_t draw(const at::Generator& generator) {
  return at::empty({}, at::kLong).random_(generator).item<std::int64_t>();
}

}  // namespace

Status DistributedSampler::check() const {
  if (dataset_size < 1 || dataset_size > kMaxDatasetSize)
    return misuse("sampler: dataset_size is " + std::to_string(dataset_size) + ", must be 1 to " +
                  std::to_string(kMaxDatasetSize));
  if (num_replicas < 1 || num_replicas > kMaxReplicas)
    return misuse("sampler: num_replicas is " + std::to_string(num_replicas) + ", must be 1 to " +
                  std::to_string(kMaxReplicas));
  if (rank < 0 || rank >= num_replicas)
    return misuse("sampler: rank is " + std::to_string(rank) + ", must be 0 to " +
                  std::to_string(num_replicas - 1) + " (num_replicas - 1)");
  return {};
}

std::int64_t DistributedSampler::num_samples() const {
  return drop_last ? dataset_size / num_replicas : (dataset_size + num_replicas - 1) / num_replicas;
}

Result<std::vector<std::int64_t>> DistributedSampler::whole_order(std::uint64_t epoch) const {
  LOCKSTEP_TRY(check());
  return guarded("sampler", ErrorKind::kInternal, [&]() -> Result<std::vector<std::int64_t>> {
    std::vector<std::int64_t> ids;
    if (shuffle) {
      ids = randperm(dataset_size, at::detail::createCPUGenerator(seed + epoch));
    } else {
      ids.resize(static_cast<std::size_t>(dataset_size));
      std::iota(ids.begin(), ids.end(), 0);
    }
    const auto n = ids.size();
    ids.resize(static_cast<std::size_t>(total_size()));
    for (std::size_t i = n; i < ids.size(); ++i) ids[i] = ids[i - n];
    return ids;
  });
}

Result<std::vector<std::int64_t>> DistributedSampler::order(std::uint64_t epoch) const {
  LOCKSTEP_ASSIGN(const std::vector<std::int64_t> whole, whole_order(epoch));
  std::vector<std::int64_t> mine;
  mine.reserve(static_cast<std::size_t>(num_samples()));
  for (std::int64_t i = rank; i < total_size(); i += num_replicas)
    mine.push_back(whole[static_cast<std::size_t>(i)]);
  return mine;
}

std::vector<std::int64_t> dataloader_order(at::Generator& generator, std::int64_t n) {
  draw(generator);  // the base seed, meant for worker processes; drawn even when there are none
  const auto sampler_seed = static_cast<std::uint64_t>(draw(generator));
  return randperm(n, at::detail::createCPUGenerator(sampler_seed));
}

std::vector<std::int64_t> legacy_order(at::Generator& generator, std::int64_t n) {
  draw(generator);  // the base seed
  return randperm(n, generator);
}

std::string generator_state(const at::Generator& generator) {
  at::Generator handle = generator;  // refers to the same generator
  const std::lock_guard<std::mutex> lock(handle.mutex());
  const at::Tensor state = handle.get_state();
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

Status set_generator_state(at::Generator& generator, std::string_view state) {
  return guarded("generator state", ErrorKind::kBadData, [&]() -> Status {
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(state.size())}, at::kByte);
    if (!state.empty()) std::memcpy(bytes.mutable_data_ptr(), state.data(), state.size());
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(bytes);
    return {};
  });
}

std::string default_generator_state() {
  return generator_state(at::detail::getDefaultCPUGenerator());
}

}  // namespace lockstep::data
