#include "ddp/bucketing.h"

namespace lockstep::ddp {

BucketLayout assign_buckets(std::span<const ParameterSpec> parameters,
                            const BucketOptions& options) {
  BucketLayout layout;
  layout.places.resize(parameters.size());
  for (auto i = static_cast<std::uint32_t>(parameters.size()); i-- > 0;) {
    const ParameterSpec& parameter = parameters[i];
    const std::uint64_t unit = 64 / comm::size_of(parameter.dtype);
    const auto full = [&] {
      const comm::BucketSpec& last = layout.buckets.back();
      const std::uint64_t limit =
          layout.buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
      return last.dtype != parameter.dtype || last.count * comm::size_of(last.dtype) >= limit;
    };
    if (layout.buckets.empty() || full()) {
      layout.buckets.push_back({parameter.dtype, 0});
      layout.members.emplace_back();
    }
    comm::BucketSpec& bucket = layout.buckets.back();
    layout.places[i] = {static_cast<std::uint32_t>(layout.buckets.size() - 1), bucket.count};
    layout.members.back().push_back(i);
    bucket.count += (parameter.count + unit - 1) / unit * unit;
  }
  return layout;
}

}  // namespace lockstep::ddp
