#include "data/vision/filling.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace lockstep::data {

using image::Size;

Filling::Filling(std::span<const std::int64_t> ids, std::optional<Size> size)
    : accepted_(ids.size(), 0) {
  batch_.ids.assign(ids.begin(), ids.end());
  batch_.targets = at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
  if (size) allocate(*size);
}

void Filling::allocate(Size size) {
  size_ = size;
  batch_.inputs =
      at::empty({batch_.targets.size(0), image::kChannels, size.height, size.width}, at::kFloat);
}

Result<std::span<float>> Filling::place(std::size_t i, Size size, const std::string& name) {
  if (!size_) allocate(size);
  if (size != *size_)
    return Error{ErrorKind::kUsage, "picture '" + name + "' comes out as " + text(size) +
                                        ", others of its batch as " + text(*size_) +
                                        ": end the transforms with a crop or a Resize to two "
                                        "sizes"};
  return places(i, 1);
}

std::span<float> Filling::places(std::size_t i, std::size_t count) {
  const std::size_t each = image::values_of(*size_);
  return {batch_.inputs.mutable_data_ptr<float>() + i * each, count * each};
}

void Filling::accept(std::size_t i, std::int64_t label) {
  batch_.targets.mutable_data_ptr<std::int64_t>()[i] = label;
  accepted_[i] = 1;
}

std::size_t Filling::close_gaps() {
  auto* const targets = batch_.targets.mutable_data_ptr<std::int64_t>();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < accepted_.size(); ++i) {
    if (accepted_[i] == 0) continue;
    if (kept < i) {
      std::ranges::copy(places(i, 1), places(kept, 1).begin());
      targets[kept] = targets[i];
      batch_.ids[kept] = batch_.ids[i];
    }
    ++kept;
  }
  return kept;
}

Batch Filling::take() {
  const std::size_t kept = close_gaps();
  if (!batch_.inputs.defined()) return {};
  if (kept < accepted_.size()) {
    const auto count = static_cast<std::int64_t>(kept);
    batch_.ids.resize(kept);
    batch_.inputs = batch_.inputs.narrow(0, 0, count);
    batch_.targets = batch_.targets.narrow(0, 0, count);
  }
  return std::move(batch_);
}

}  // namespace lockstep::data
