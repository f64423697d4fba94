#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/env.h"
#include "base/guard.h"
#include "base/hash.h"
#include "data/digits.h"
#include "data/ids.h"
#include "data/images.h"
#include "data/left_out.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

using IdSpan = std::span<const std::int64_t>;

// ToTensor's value / 255, for each byte. One table in place of a conversion and a division per
// pixel: same bits, no ATen kernel, so that a prefetch thread starts no thread pool.
std::array<float, 256> unit_values() {
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 255.0F;
  return table;
}

class ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(LabelledImages images) : images_(std::move(images)) {}

  std::int64_t size() const override { return images_.count(); }

  Result<Batch> get(IdSpan ids, const Pass&) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    return guarded("image batch", ErrorKind::kInternal, [&]() -> Result<Batch> {
      const auto count = static_cast<std::int64_t>(ids.size());
      Batch batch{at::empty({count, 1, images_.rows(), images_.columns()}, at::kFloat),
                  at::empty({count}, at::kLong),
                  {ids.begin(), ids.end()}};
      float* out = batch.inputs.mutable_data_ptr<float>();
      auto* label = batch.targets.mutable_data_ptr<std::int64_t>();
      const auto pixels = static_cast<std::size_t>(images_.rows() * images_.columns());
      for (const std::int64_t id : ids) {
        const auto image =
            images_.images.values().subspan(static_cast<std::size_t>(id) * pixels, pixels);
        out = std::transform(image.begin(), image.end(), out,
                             [&](std::uint8_t v) { return values_[v]; });
        *label++ = images_.labels.values()[static_cast<std::size_t>(id)];
      }
      return batch;
    });
  }

  std::string fingerprint() const override {
    Xxh3 hash;
    for (const IdxArray* array : {&images_.images, &images_.labels}) {
      hash.update(std::as_bytes(std::span(array->header.sizes)));
      hash.update(std::as_bytes(array->values()));
    }
    return "xxh3 " + hash.hex();
  }

 private:
  const LabelledImages images_;
  const std::array<float, 256> values_ = unit_values();
};

class TensorDataset final : public Dataset {
 public:
  TensorDataset(at::Tensor inputs, at::Tensor targets, Transform transform)
      : inputs_(std::move(inputs)),
        targets_(std::move(targets)),
        transform_(std::move(transform)) {}

  std::int64_t size() const override { return inputs_.size(0); }

  Result<Batch> get(IdSpan ids, const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    return guarded("tensor batch", ErrorKind::kInternal, [&]() -> Result<Batch> {
      const at::Tensor index = at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
      if (!ids.empty()) std::memcpy(index.mutable_data_ptr(), ids.data(), ids.size_bytes());
      Batch batch{at::index_select(inputs_, 0, index),
                  at::index_select(targets_, 0, index),
                  {ids.begin(), ids.end()}};
      return transform_ ? transform_(std::move(batch), pass) : std::move(batch);
    });
  }

  std::string fingerprint() const override {
    Xxh3 hash;
    for (const at::Tensor& tensor : {inputs_, targets_}) {
      const at::Tensor here = tensor.detach().cpu().contiguous();
      const auto type = static_cast<std::int64_t>(here.scalar_type());
      hash.update(std::as_bytes(std::span(&type, 1)));
      hash.update(std::as_bytes(std::span(here.sizes().data(), here.sizes().size())));
      hash.update({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()});
    }
    return "xxh3 " + hash.hex();
  }

 private:
  const at::Tensor inputs_, targets_;
  const Transform transform_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> open_mnist(const std::string& folder, Split split) {
  LOCKSTEP_TRY(check_local(folder));
  LOCKSTEP_ASSIGN(
      LabelledImages images,
      read_mnist(posix_env(), folder, split == Split::kTrain ? train_files() : test_files()));
  return std::shared_ptr<const Dataset>(std::make_shared<ImageDataset>(std::move(images)));
}

namespace {

Result<std::shared_ptr<const Dataset>> open_digits(Split split) {
  LOCKSTEP_ASSIGN(const std::string folder, default_digits_folder());
  LOCKSTEP_TRY(ensure_digits(posix_env(), folder));
  return open_mnist(folder, split);
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_images(const std::string& source, Split split,
                                                   std::int64_t side) {
  LOCKSTEP_ASSIGN(auto set, source == "synthetic" ? open_digits(split) : open_mnist(source, split));
  if (side == 0) return set;
  return resized(std::move(set), side, side);
}

Result<std::shared_ptr<const Dataset>> tensor_dataset(at::Tensor inputs, at::Tensor targets,
                                                      Transform transform) {
  const auto count = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
  };
  if (count(inputs) != count(targets) || count(inputs) < 1)
    return Error{ErrorKind::kUsage, "tensor data set: " + std::to_string(count(inputs)) +
                                        " inputs and " + std::to_string(count(targets)) +
                                        " targets (first dimensions); both must be the same, at "
                                        "least 1"};
  return std::shared_ptr<const Dataset>(
      std::make_shared<TensorDataset>(std::move(inputs), std::move(targets), std::move(transform)));
}

std::int64_t evaluation_batches(std::int64_t size, std::int64_t batch_size) {
  return (size + batch_size - 1) / batch_size;
}

Result<Batch> evaluation_batch(const Dataset& dataset, std::int64_t batch_size,
                               std::int64_t index) {
  const std::int64_t size = dataset.size();
  if (batch_size < 1 || index < 0 || index >= evaluation_batches(size, batch_size))
    return Error{ErrorKind::kUsage, "evaluation: batch " + std::to_string(index) + " of size " +
                                        std::to_string(batch_size) + " of " + std::to_string(size) +
                                        " samples does not exist"};
  std::vector<std::int64_t> ids(
      static_cast<std::size_t>(std::min(batch_size, size - index * batch_size)));
  std::iota(ids.begin(), ids.end(), index * batch_size);
  return guarded("evaluation batch", ErrorKind::kInternal, [&]() -> Result<Batch> {
    LOCKSTEP_ASSIGN(Batch batch, dataset.get(ids, Pass{}));
    static LeftOut told(
        "the set that is evaluated");  // a program may have several, one after the other
    if (batch.ids.size() < ids.size()) told.say_left_out(dataset, ids, batch.ids);
    return batch;
  });
}

}  // namespace lockstep::data
