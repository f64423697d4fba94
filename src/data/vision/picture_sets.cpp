// Pictures as batches of tensors.
#include <algorithm>
#include <map>
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
#include "data/pieces.h"
#include "data/vision/cifar.h"
#include "data/vision/filling.h"
#include "data/vision/image_folder.h"
#include "lockstep/vision.h"

namespace lockstep::data {
namespace {

using image::SampleRandom;
using image::Size;
using image::Transforms;
using image::Workspace;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

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

// What was found damaged, and why.
class LeftOut {
 public:
  void add(std::int64_t id, std::string why) {
    const std::lock_guard lock(mutex_);
    const bool kept = why_.size() < kMostReasons;
    if (ids_.insert(id).second && kept) why_.emplace(id, std::move(why));
  }
  std::string why(std::int64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = why_.find(id);
    return found == why_.end() ? "" : found->second;
  }
  std::int64_t count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(ids_.size());
  }

 private:
  static constexpr std::size_t kMostReasons = 1000;
  mutable std::mutex mutex_;
  std::set<std::int64_t> ids_;
  std::map<std::int64_t, std::string> why_;
};

std::vector<std::uint32_t> keys_of(std::span<const std::int64_t> ids, const Pass& pass) {
  std::vector<std::uint32_t> keys;
  for (const std::int64_t id : ids)
    keys.push_back(image::sample_key(pass.seed, pass.epoch, static_cast<std::uint64_t>(id)));
  return keys;
}

// A set whose batches are made in pieces of `piece` pictures, on several threads where every
// picture's size is known.
class TransformedSet : public PictureSet, public InPieces {
 public:
  TransformedSet(Transforms transforms, std::optional<Size> size, std::size_t piece)
      : transforms_(std::move(transforms)), size_(size), piece_(piece) {}

  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    return guarded("batch of pictures", ErrorKind::kInternal, [&]() -> Result<Batch> {
      Making batch(*this, ids, pass);
      for (std::size_t i = 0; i < batch.count(); ++i) LOCKSTEP_TRY(batch.fill(i));
      return batch.take();
    });
  }
  Result<std::unique_ptr<Pieces>> pieces(std::span<const std::int64_t> ids,
                                         const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    if (!size_) return std::unique_ptr<Pieces>();
    return std::unique_ptr<Pieces>(std::make_unique<Making>(*this, ids, pass));
  }

 protected:
  // The pictures from the first-th on; keys[i] is of the i-th of them.
  virtual Status fill(Filling& batch, std::size_t first, std::span<const std::uint32_t> keys,
                      Workspace& workspace) const = 0;

  const Transforms transforms_;
  const std::optional<Size> size_;  // that every picture comes out with

 private:
  class Making final : public Pieces {
   public:
    Making(const TransformedSet& set, std::span<const std::int64_t> ids, const Pass& pass)
        : set_(set), keys_(keys_of(ids, pass)), batch_(ids, set.size_) {}
    std::size_t count() const override { return (keys_.size() + set_.piece_ - 1) / set_.piece_; }
    Status fill(std::size_t piece) override {
      const std::size_t first = piece * set_.piece_;
      const std::size_t count = std::min(set_.piece_, keys_.size() - first);
      auto workspace = set_.workspaces_.take();
      Status filled = set_.fill(batch_, first, std::span(keys_).subspan(first, count), *workspace);
      set_.workspaces_.give_back(std::move(workspace));
      return filled;
    }
    Result<Batch> take() override { return batch_.take(); }

   private:
    const TransformedSet& set_;
    const std::vector<std::uint32_t> keys_;
    Filling batch_;
  };

  const std::size_t piece_;
  mutable Workspaces workspaces_;
};

class FolderSet final : public TransformedSet {
 public:
  FolderSet(ImageFolder folder, Transforms transforms, std::optional<Size> size)
      : TransformedSet(std::move(transforms), size, /*piece=*/1), folder_(std::move(folder)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(folder_.files.size()); }
  const std::vector<std::string>& classes() const override { return folder_.classes; }
  std::int64_t label(std::int64_t id) const override { return file(id).label; }
  std::string name(std::int64_t id) const override { return file(id).path; }
  std::int64_t left_out() const override { return left_out_.count(); }
  std::string why_left_out(std::int64_t id) const override { return left_out_.why(id); }

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

  Status fill(Filling& batch, std::size_t first, std::span<const std::uint32_t> keys,
              Workspace& workspace) const override {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::int64_t id = batch.id(first + i);
      SampleRandom random(keys[i]);
      const Status added = add(batch, first + i, random, workspace);
      if (added.ok())
        batch.accept(first + i, label(id));
      else if (added.error().kind == ErrorKind::kBadData)
        left_out_.add(id, added.error().message);
      else
        return added.error();
    }
    return {};
  }

  // Transforms one picture into its place in the batch. kBadData: it is left out.
  Status add(Filling& batch, std::size_t i, SampleRandom& random, Workspace& workspace) const {
    const std::string& path = file(batch.id(i)).path;
    const auto content = posix_env().read(path, kMaxFileBytes);
    // Never left out: on another worker it may be there.
    if (!content.ok()) return Error{ErrorKind::kDisk, content.error().message};
    const image::Bytes bytes(reinterpret_cast<const std::uint8_t*>(content->data()),
                             content->size());
    if (size_) {
      LOCKSTEP_ASSIGN(const std::span<float> place, batch.place(i, *size_, path));
      return transforms_.apply(bytes, path, random, workspace, place);
    }
    image::Image& decoded = workspace.canvas.decoded;
    LOCKSTEP_TRY(image::decode(bytes, path, decoded));
    LOCKSTEP_ASSIGN(const Size size, transforms_.output_size({decoded.height(), decoded.width()}));
    LOCKSTEP_ASSIGN(const std::span<float> place, batch.place(i, size, path));
    return transforms_.apply(decoded.view(), random, workspace, place);
  }

  const ImageFolder folder_;
  mutable LeftOut left_out_;
};

class CifarSet final : public TransformedSet {
 public:
  CifarSet(Cifar cifar, std::string name, Transforms transforms, Size size)
      : TransformedSet(std::move(transforms), size, kPiece),
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
  static constexpr std::size_t kPiece = 32;  // as many random streams are seeded side by side

  Status fill(Filling& batch, std::size_t first, std::span<const std::uint32_t> keys,
              Workspace& workspace) const override {
    std::vector<image::PixelView> pictures;
    for (std::size_t i = first; i < first + keys.size(); ++i) {
      const auto id = static_cast<std::size_t>(batch.id(i));
      pictures.push_back(image::planar_view(cifar_.picture(id), kCifarSide, kCifarSide));
      batch.accept(i, cifar_.labels[id]);
    }
    return transforms_.apply_batch(pictures, keys, workspace, batch.places(first, keys.size()));
  }

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
  if (const std::string others = left_out_by_name(folder); !others.empty()) log_once(others);
  const std::optional<Size> size = transforms.fixed_size();
  return std::shared_ptr<const PictureSet>(
      std::make_shared<FolderSet>(std::move(folder), std::move(transforms), size));
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
