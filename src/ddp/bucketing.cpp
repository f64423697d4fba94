#include "ddp/bucketing.h"

#include <map>

namespace lockstep::ddp {
namespace {

// The buckets of one set of optimizers, so far.
struct Filling {
  std::uint32_t last = 0;
  std::uint32_t count = 0;
};

}  // namespace

BucketLayout assign_buckets(std::span<const ParameterSpec> parameters,
                            const BucketOptions& options) {
  BucketLayout layout;
  layout.places.resize(parameters.size());
  std::map<std::uint64_t, Filling> sets;
  for (auto i = static_cast<std::uint32_t>(parameters.size()); i-- > 0;) {
    const ParameterSpec& parameter = parameters[i];
    const std::uint64_t unit = 64 / comm::size_of(parameter.dtype);
    Filling& set = sets[parameter.optimizers];
    const auto full = [&] {
      const comm::BucketSpec& last = layout.buckets[set.last];
      const std::uint64_t limit =
          set.count == 1 ? options.first_bucket_bytes : options.bucket_bytes;
      return last.dtype != parameter.dtype || last.count * comm::size_of(last.dtype) >= limit;
    };
    if (set.count == 0 || full()) {
      set = {static_cast<std::uint32_t>(layout.buckets.size()), set.count + 1};
      layout.buckets.push_back({parameter.dtype, 0});
      layout.members.emplace_back();
      layout.optimizers.push_back(parameter.optimizers);
    }
    comm::BucketSpec& bucket = layout.buckets[set.last];
    layout.places[i] = {set.last, bucket.count};
    layout.members[set.last].push_back(i);
    bucket.count += (parameter.count + unit - 1) / unit * unit;
  }
  return layout;
}

}  // namespace lockstep::ddp
