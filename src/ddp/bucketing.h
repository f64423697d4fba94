// Which parameter's gradient lives where: PyTorch DDP's bucket rule (reverse order of registration,
// the first bucket 1 MiB, then 25 MiB; torch/nn/parallel/distributed.py), one dtype per bucket, and
// one set of optimizers: buckets of several sets fill side by side, each set's as if it were alone.
// Bucket layout never changes a bit of the sums (docs/design/arithmetic.md), only when they can
// begin.
//
// Pure; threads: values. Errors: kUsage for a dtype that has no sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "lockstep/status.h"

namespace lockstep::ddp {

struct ParameterSpec {
  comm::DType dtype = comm::DType::kFloat32;
  std::uint64_t count = 0;       // elements
  std::uint64_t optimizers = 0;  // those that update it, a bit each
};

struct Place {
  std::uint32_t bucket = 0;
  std::uint64_t offset = 0;  // elements from the bucket's start; 64-byte aligned
};

struct BucketOptions {
  std::uint64_t first_bucket_bytes = std::uint64_t{1} << 20;
  std::uint64_t bucket_bytes = std::uint64_t{25} << 20;
};

struct BucketLayout {
  std::vector<comm::BucketSpec> buckets;
  std::vector<Place> places;                        // one per parameter
  std::vector<std::vector<std::uint32_t>> members;  // parameters of each bucket
  std::vector<std::uint64_t> optimizers;            // of each bucket
};

BucketLayout assign_buckets(std::span<const ParameterSpec> parameters,
                            const BucketOptions& options);

}  // namespace lockstep::ddp
