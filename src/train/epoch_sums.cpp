#include "train/epoch_sums.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>

#include "transaction/noted_sums.h"

namespace lockstep::training {
namespace {

constexpr std::int64_t kPlaces = transaction::kMostSums;
constexpr std::int64_t kBytes = transaction::kMostSumName + 1;

}  // namespace

EpochSums::EpochSums()
    : names_(at::zeros({kPlaces, kBytes}, at::kByte)),
      sums_(at::zeros({kPlaces}, at::kDouble)),
      counts_(at::zeros({kPlaces}, at::kLong)) {}

Sums EpochSums::all() const {
  Sums sums;
  for (std::int64_t i = 0; i < kPlaces; ++i) {
    const auto* const name = names_.const_data_ptr<std::uint8_t>() + i * kBytes;
    if (*name == 0) break;
    sums.add({name, std::find(name, name + kBytes - 1, 0)},
             {sums_.const_data_ptr<double>()[i], counts_.const_data_ptr<std::int64_t>()[i]});
  }
  return sums;
}

Sums EpochSums::with(const Sums& step, bool first) const {
  Sums sums = first ? Sums() : all();
  sums += step;
  return sums;
}

void EpochSums::set(const Sums& sums) {
  names_.zero_();
  sums_.zero_();
  counts_.zero_();
  std::int64_t i = 0;
  for (const auto& [name, sum] : sums) {
    std::copy(name.begin(), name.end(), names_.mutable_data_ptr<std::uint8_t>() + i * kBytes);
    sums_.mutable_data_ptr<double>()[i] = sum.sum;
    counts_.mutable_data_ptr<std::int64_t>()[i] = sum.count;
    ++i;
  }
}

}  // namespace lockstep::training
