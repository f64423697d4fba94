// What the plain loops of libtorch share that examples are compared with: NAME_plain CHECKPOINT
// STEPS SIZE prints the loss of each update as metrics.jsonl has it, and whether the checkpoint's
// parameters are the loop's own.
#pragma once

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/checkpoint.h"
#include "lockstep/status.h"

namespace plain {

using lockstep::Status;

// docs/design/arithmetic.md, "Random layers".
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
// Share::seed() of seed 0 and virtual worker 0.
inline std::uint64_t seed_of(std::int64_t step) {
  return mixed(mixed(mixed(0) ^ static_cast<std::uint64_t>(step)) ^ 0);
}

inline void print_loss(const at::Tensor& loss) { std::printf("%.17g\n", loss.item<double>()); }

inline Status compare(const std::string& checkpoint, const torch::nn::Module& module,
                      const std::string& prefix = "") {
  LOCKSTEP_ASSIGN(const auto saved, lockstep::load_safetensors(checkpoint + "/model.safetensors"));
  for (const auto& own : module.named_parameters()) {
    bool same = false;
    for (const auto& [name, tensor] : saved)
      if (name == prefix + own.key()) same = at::equal(tensor, own.value());
    if (!same) std::printf("%s%s differs\n", prefix.c_str(), own.key().c_str());
  }
  return {};
}

using Train = Status(const std::string& checkpoint, std::int64_t steps, std::int64_t size);

inline int run(int argc, char** argv, Train* train) {
  if (argc != 4) return 2;
  at::set_num_threads(1);
  const Status status = train(argv[1], std::atol(argv[2]), std::atol(argv[3]));
  if (status.ok()) std::printf("compared\n");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace plain
