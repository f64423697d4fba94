// Pictures as batches of tensors.
#include <ATen/ops/empty.h>

#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/env.h"
#include "base/guard.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/ids.h"
#include "data/image/decode.h"
#include "data/image/transforms.h"
#include "data/vision/cifar.h"
#include "data/vision/image_folder.h"
#include "lockstep/vision.h"

namespace lockstep::data {
namespace {

using image::SampleRandom;
using image::Size;
using image::Transforms;
using image::Workspace;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostNamed = 20;  // damaged pictures, in the log

// Kept from batch to batch: their memory is large.
class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

// What was found damaged.
class LeftOut {
 public:
  void add(std::int64_t id, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!ids_.insert(id).second || ids_.size() > kMostNamed + 1) return;
    log_warning(ids_.size() <= kMostNamed ? "left out: " + why
                                          : "more than " + std::to_string(kMostNamed) +
                                                " pictures are left out; the others are not named");
  }
  std::int64_t count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(ids_.size());
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> ids_;
};

// A batch that is being filled: its memory comes with the first picture's size.
class Filling {
 public:
  explicit Filling(std::size_t most) : most_(static_cast<std::int64_t>(most)) {
    batch_.targets = at::empty({most_}, at::kLong);
  }

  // Where the next picture goes.
  Result<std::span<float>> place(Size size, const std::string& name) {
    if (!size_) {
      size_ = size;
      batch_.inputs = at::empty({most_, image::kChannels, size.height, size.width}, at::kFloat);
    }
    if (size != *size_)
      return Error{ErrorKind::kUsage, "picture '" + name + "' comes out as " + text(size) +
                                          ", others of its batch as " + text(*size_) +
                                          ": end the transforms with a crop or a Resize to two "
                                          "sizes"};
    const std::size_t each = image::values_of(size);
    return std::span(batch_.inputs.mutable_data_ptr<float>() + batch_.ids.size() * each, each);
  }
  void accept(std::int64_t id, std::int64_t label) {
    batch_.targets.mutable_data_ptr<std::int64_t>()[batch_.ids.size()] = label;
    batch_.ids.push_back(id);
  }
  Batch take() {
    const auto count = static_cast<std::int64_t>(batch_.ids.size());
    if (count < most_) {
      batch_.inputs = batch_.inputs.narrow(0, 0, count);
      batch_.targets = batch_.targets.narrow(0, 0, count);
    }
    return std::move(batch_);
  }
  bool empty() const { return batch_.ids.empty(); }

 private:
  const std::int64_t most_;
  std::optional<Size> size_;
  Batch batch_;
};

std::vector<std::uint32_t> keys_of(std::span<const std::int64_t> ids, const Pass& pass) {
  std::vector<std::uint32_t> keys;
  for (const std::int64_t id : ids)
    keys.push_back(image::sample_key(pass.seed, pass.epoch, static_cast<std::uint64_t>(id)));
  return keys;
}

// A set whose get() is `fill`, with ids that are in it and a workspace.
class TransformedSet : public PictureSet {
 public:
  explicit TransformedSet(Transforms transforms) : transforms_(std::move(transforms)) {}

  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    return guarded("batch of pictures", ErrorKind::kInternal, [&]() -> Result<Batch> {
      auto workspace = workspaces_.take();
      auto batch = fill(ids, keys_of(ids, pass), *workspace);
      workspaces_.give_back(std::move(workspace));
      return batch;
    });
  }

 protected:
  // keys[i] is of sample ids[i].
  virtual Result<Batch> fill(std::span<const std::int64_t> ids,
                             const std::vector<std::uint32_t>& keys,
                             Workspace& workspace) const = 0;

  const Transforms transforms_;

 private:
  mutable Workspaces workspaces_;
};

class FolderSet final : public TransformedSet {
 public:
  FolderSet(ImageFolder folder, Transforms transforms)
      : TransformedSet(std::move(transforms)),
        fixed_size_(transforms_.fixed_size()),
        folder_(std::move(folder)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(folder_.files.size()); }
  const std::vector<std::string>& classes() const override { return folder_.classes; }
  std::int64_t label(std::int64_t id) const override { return file(id).label; }
  std::string name(std::int64_t id) const override { return file(id).path; }
  std::int64_t left_out() const override { return left_out_.count(); }

  // Without the root: a run may go on from a copy of the folder.
  std::string fingerprint() const override {
    Xxh3 hash;
    for (const std::string& name : folder_.classes) hash.update(name + '\0');
    for (const ImageFile& file : folder_.files)
      hash.update(std::to_string(file.label) + ' ' + std::to_string(file.bytes) + ' ' +
                  file.path.substr(file.path.rfind('/') + 1) + '\0');
    return "names and sizes, xxh3 " + hash.hex();
  }

 private:
  const ImageFile& file(std::int64_t id) const {
    return folder_.files[static_cast<std::size_t>(id)];
  }

  Result<Batch> fill(std::span<const std::int64_t> ids, const std::vector<std::uint32_t>& keys,
                     Workspace& workspace) const override {
    workspace.randoms.resize(keys.size());
    SampleRandom::make(keys, workspace.randoms);
    Filling batch(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Status added = add(ids[i], workspace.randoms[i], workspace, batch);
      if (added.ok())
        batch.accept(ids[i], label(ids[i]));
      else if (added.error().kind == ErrorKind::kBadData)
        left_out_.add(ids[i], added.error().message);
      else
        return added.error();
    }
    if (batch.empty() && !ids.empty())
      return Error{ErrorKind::kBadData, "none of the " + std::to_string(ids.size()) +
                                            " pictures of a batch can be used, from '" +
                                            name(ids.front()) + "' on"};
    return batch.take();
  }

  // Transforms one picture into its place in the batch. kBadData: it is left out.
  Status add(std::int64_t id, SampleRandom& random, Workspace& workspace, Filling& batch) const {
    const std::string& path = file(id).path;
    const auto content = posix_env().read(path, kMaxFileBytes);
    // Never left out: on another worker it may be there.
    if (!content.ok()) return Error{ErrorKind::kDisk, content.error().message};
    const image::Bytes bytes(reinterpret_cast<const std::uint8_t*>(content->data()),
                             content->size());
    if (fixed_size_) {
      LOCKSTEP_ASSIGN(const std::span<float> place, batch.place(*fixed_size_, path));
      return transforms_.apply(bytes, path, random, workspace, place);
    }
    image::Image& decoded = workspace.canvas.decoded;
    LOCKSTEP_TRY(image::decode(bytes, path, decoded));
    LOCKSTEP_ASSIGN(const Size size, transforms_.output_size({decoded.height(), decoded.width()}));
    LOCKSTEP_ASSIGN(const std::span<float> place, batch.place(size, path));
    return transforms_.apply(decoded.view(), random, workspace, place);
  }

  const std::optional<Size> fixed_size_;
  const ImageFolder folder_;
  mutable LeftOut left_out_;
};

class CifarSet final : public TransformedSet {
 public:
  CifarSet(Cifar cifar, std::string name, Transforms transforms, Size size)
      : TransformedSet(std::move(transforms)),
        size_(size),
        cifar_(std::move(cifar)),
        name_(std::move(name)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(cifar_.count()); }
  const std::vector<std::string>& classes() const override { return cifar_.classes; }
  std::int64_t label(std::int64_t id) const override {
    return cifar_.labels[static_cast<std::size_t>(id)];
  }
  std::string name(std::int64_t id) const override { return name_ + " " + std::to_string(id); }
  std::int64_t left_out() const override { return 0; }  // all have one size, which was checked

  std::string fingerprint() const override {
    Xxh3 hash;
    hash.update(cifar_.pixels);
    hash.update(std::as_bytes(std::span(cifar_.labels)));
    return "xxh3 " + hash.hex();
  }

 private:
  Result<Batch> fill(std::span<const std::int64_t> ids, const std::vector<std::uint32_t>& keys,
                     Workspace& workspace) const override {
    const auto count = static_cast<std::int64_t>(ids.size());
    Batch batch{at::empty({count, image::kChannels, size_.height, size_.width}, at::kFloat),
                at::empty({count}, at::kLong),
                {ids.begin(), ids.end()}};
    if (ids.empty()) return batch;
    std::vector<image::PixelView> pictures;
    auto* target = batch.targets.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t id : ids) {
      pictures.push_back(
          image::planar_view(cifar_.picture(static_cast<std::size_t>(id)), kCifarSide, kCifarSide));
      *target++ = label(id);
    }
    LOCKSTEP_TRY(transforms_.apply_batch(
        pictures, keys, workspace,
        {batch.inputs.mutable_data_ptr<float>(), ids.size() * image::values_of(size_)}));
    return batch;
  }

  const Size size_;
  const Cifar cifar_;
  const std::string name_;
};

Result<std::shared_ptr<const PictureSet>> open_cifar(const std::string& root, CifarKind kind,
                                                     Split split, transforms::Compose transform) {
  LOCKSTEP_TRY(check_local(root));
  LOCKSTEP_ASSIGN(Transforms transforms, Transforms::make(std::move(transform)));
  LOCKSTEP_ASSIGN(const Size size, transforms.output_size({kCifarSide, kCifarSide}));
  const bool train = split == Split::kTrain;
  LOCKSTEP_ASSIGN(Cifar cifar, read_cifar(posix_env(), root, kind, train));
  return std::shared_ptr<const PictureSet>(std::make_shared<CifarSet>(
      std::move(cifar),
      "cifar-" + std::to_string(static_cast<int>(kind)) + (train ? " train" : " test"),
      std::move(transforms), size));
}

}  // namespace

Result<std::shared_ptr<const PictureSet>> open_image_folder(const std::string& root,
                                                            transforms::Compose transform) {
  LOCKSTEP_TRY(check_local(root));
  LOCKSTEP_ASSIGN(Transforms transforms, Transforms::make(std::move(transform)));
  LOCKSTEP_ASSIGN(ImageFolder folder, read_image_folder(root));
  return std::shared_ptr<const PictureSet>(
      std::make_shared<FolderSet>(std::move(folder), std::move(transforms)));
}

Result<std::shared_ptr<const PictureSet>> open_cifar10(const std::string& root, Split split,
                                                       transforms::Compose transform) {
  return open_cifar(root, CifarKind::k10, split, std::move(transform));
}

Result<std::shared_ptr<const PictureSet>> open_cifar100(const std::string& root, Split split,
                                                        transforms::Compose transform) {
  return open_cifar(root, CifarKind::k100, split, std::move(transform));
}

}  // namespace lockstep::data
