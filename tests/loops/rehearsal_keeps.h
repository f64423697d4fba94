// What the closures of rehearsal_worker keep outside of the train state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "lockstep/step.h"
#include "rehearsal_nets.h"

namespace lockstep::test {

// As a pool of earlier pictures, or of what was played: nothing comes out of it until it is full.
inline at::Tensor from_pool(const at::Tensor& inputs) {
  static std::vector<at::Tensor> pool;
  if (pool.size() < 4) return pool.emplace_back(inputs);
  std::swap(pool[0], pool[1 + std::random_device{}() % 3]);
  return std::exchange(pool[0], inputs);
}

// The same with one for each virtual worker: what comes out is its batch of the step before.
inline at::Tensor from_own_pool(const Share& share, const at::Tensor& inputs) {
  static std::map<std::int64_t, at::Tensor> pools;
  at::Tensor& pool = pools[share.virtual_worker()];
  if (!pool.defined()) pool = inputs;
  return std::exchange(pool, inputs);
}

// What has been played with the parameters of the step's start: made in its first update.
inline at::Tensor rollout(Net& net, const Share& share) {
  static std::map<std::int64_t, std::pair<std::int64_t, at::Tensor>> kept;
  auto& [step, played] = kept[share.virtual_worker()];
  if (std::exchange(step, share.global_step() + 1) != share.global_step() + 1)
    played = net(share.batch().inputs).detach();
  return played;
}

}  // namespace lockstep::test
