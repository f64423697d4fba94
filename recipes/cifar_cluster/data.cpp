#include "data.h"

#include <ATen/Functions.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/vision.h"
#include "python_random.h"

namespace cifar_cluster {
namespace {

using lockstep::Error;
using lockstep::Result;
using lockstep::data::Split;
using Pictures = std::shared_ptr<const lockstep::data::PictureSet>;

constexpr int kSide = 32;  // CIFAR's
constexpr std::uint32_t kSeedOfLabels = 2021;
constexpr const char* kAddress = "http://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz";

// [1] * (n / 2) + [0] * (n / 2), shuffled.
at::Tensor labels(std::int64_t samples, PythonRandom& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(samples / 2), 1);
  values.resize(2 * values.size(), 0);
  random.shuffle(values);
  return at::tensor(values, at::kLong);
}

Result<Data> random_data(const Options& options) {
  const std::int64_t train = options.train_samples / 2 * 2, val = options.val_samples / 2 * 2;
  const std::int64_t side = options.image_size;
  PythonRandom random(kSeedOfLabels);
  const at::Tensor train_labels = labels(train, random), val_labels = labels(val, random);
  const at::Tensor train_pictures = at::randn({train, 3, side, side});
  const at::Tensor val_pictures = at::randn({val, 3, side, side});
  Data data;
  LOCKSTEP_ASSIGN(data.train, lockstep::data::tensor_dataset(train_pictures, train_labels));
  LOCKSTEP_ASSIGN(data.val, lockstep::data::tensor_dataset(val_pictures, val_labels));
  return data;
}

lockstep::transforms::Compose resized(std::int64_t side) {
  const auto size = static_cast<int>(side);
  return {lockstep::transforms::Resize{size, size}, lockstep::transforms::ToTensor{}};
}

Result<Data> folders(const std::string& root, std::int64_t side) {
  LOCKSTEP_ASSIGN(const Pictures train,
                  lockstep::data::open_image_folder(root + "/train", resized(side)));
  LOCKSTEP_ASSIGN(const Pictures val,
                  lockstep::data::open_image_folder(root + "/val", resized(side)));
  LOCKSTEP_TRY(lockstep::data::check_same_classes(*train, *val, "'" + root + "/val'"));
  return Data{train, val, static_cast<std::int64_t>(train->classes().size())};
}

Result<Data> cifar(const std::string& root, std::int64_t side) {
  const lockstep::transforms::Compose transform =
      side == kSide ? lockstep::transforms::Compose{lockstep::transforms::ToTensor{}}
                    : resized(side);
  Data data;
  for (const Split split : {Split::kTrain, Split::kTest}) {
    Result<Pictures> opened = lockstep::data::open_cifar10(root, split, transform);
    if (!opened.ok())
      return Error{opened.error().kind,
                   opened.error().message +
                       ", you can download and unzip cifar-10 dataset manually, the data url is " +
                       kAddress + "; or fetch it by `lockstep data get cifar10 " + root + "`"};
    (split == Split::kTrain ? data.train : data.val) = *std::move(opened);
  }
  return data;
}

}  // namespace

Result<Data> open_data(const Options& options) {
  const std::string& root = options.data_url;
  const auto has = [&](const char* name) {
    std::error_code code;
    return std::filesystem::is_directory(root + name, code);
  };
  if (options.custom_data) return random_data(options);
  if (!has("/cifar-10-batches-py") && has("/train") && has("/val"))
    return folders(root, options.image_size);
  return cifar(root, options.image_size);
}

}  // namespace cifar_cluster
