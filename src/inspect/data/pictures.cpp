#include "inspect/data/pictures.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include "base/log.h"
#include "data/image/decode.h"
#include "data/images.h"
#include "data/vision/cifar.h"
#include "data/vision/image_folder.h"
#include "inspect/files.h"

namespace lockstep::inspect {
namespace {

namespace fs = std::filesystem;
using data::image::Image;
using Names = std::vector<std::string>;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

bool any_file(const std::string& folder, const Names& places, const Names& names) {
  for (const std::string& place : places)
    for (const std::string& name : names)
      if (is_file((fs::path(folder) / place / name).string())) return true;
  return false;
}

void from_planes(const std::uint8_t* pixels, int side, Image& out) {
  out.resize(side, side);
  const auto plane = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t channel = 0; channel < data::image::kChannels; ++channel)
      out.data()[i * data::image::kChannels + channel] = pixels[channel * plane + i];
}

void from_grey(const std::uint8_t* pixels, int width, int height, Image& out) {
  out.resize(width, height);
  for (std::size_t i = 0; i < out.bytes(); ++i) out.data()[i] = pixels[i / data::image::kChannels];
}

std::string numbered(const std::string& set, std::size_t index) {
  return set + " " + std::to_string(index);
}

// -------------------------------------------------------------------------------------------------

Result<Split> cifar_split(Env& env, const std::string& folder, data::CifarKind kind, bool train) {
  LOCKSTEP_ASSIGN(data::Cifar read, data::read_cifar(env, folder, kind, train));
  const auto cifar = std::make_shared<const data::Cifar>(std::move(read));
  Split split;
  split.name = train ? "train" : "test";
  split.training = train;
  split.classes = cifar->classes;
  split.labels.assign(cifar->labels.begin(), cifar->labels.end());
  split.picture = [cifar](std::size_t index, Image& out) -> Status {
    from_planes(cifar->picture(index), data::kCifarSide, out);
    return {};
  };
  split.picture_name = [name = split.name](std::size_t index) { return numbered(name, index); };
  return split;
}

struct CifarNames {
  data::CifarKind kind;
  const char* format;
  Names places;
  std::array<Names, 2> files;  // the first ones of the test set and of the training set
};

std::vector<CifarNames> cifar_names() {
  return {{data::CifarKind::k10,
           "CIFAR-10",
           {"", "cifar-10-batches-py", "cifar-10-batches-bin"},
           {Names{"test_batch", "test_batch.bin"}, Names{"data_batch_1", "data_batch_1.bin"}}},
          {data::CifarKind::k100,
           "CIFAR-100",
           {"", "cifar-100-python", "cifar-100-binary"},
           {Names{"test", "test.bin"}, Names{"train", "train.bin"}}}};
}

Result<std::optional<PictureData>> open_cifar(Env& env, const std::string& folder) {
  for (const CifarNames& names : cifar_names()) {
    PictureData data{names.format,
                     {},
                     {transforms::RandomCrop{data::kCifarSide, data::kCifarSide, 4},
                      transforms::RandomHorizontalFlip{}}};
    for (const bool train : {true, false}) {
      if (!any_file(folder, names.places, names.files[train ? 1 : 0])) continue;
      LOCKSTEP_ASSIGN(Split split, cifar_split(env, folder, names.kind, train));
      data.splits.push_back(std::move(split));
    }
    if (!data.splits.empty()) return std::optional(std::move(data));
  }
  return std::optional<PictureData>();
}

// -------------------------------------------------------------------------------------------------

Result<Split> mnist_split(Env& env, const std::string& folder, bool train) {
  LOCKSTEP_ASSIGN(data::LabelledImages read,
                  data::read_mnist(env, folder, train ? data::train_files() : data::test_files()));
  const auto images = std::make_shared<const data::LabelledImages>(std::move(read));
  constexpr std::size_t kClasses = 10;
  Split split;
  split.name = train ? "train" : "test";
  split.training = train;
  for (std::size_t i = 0; i < kClasses; ++i) split.classes.push_back(std::to_string(i));
  const auto labels = images->labels.values();
  split.labels.assign(labels.begin(), labels.end());
  split.picture = [images](std::size_t index, Image& out) -> Status {
    const auto width = static_cast<int>(images->columns()),
               height = static_cast<int>(images->rows());
    const std::size_t each = static_cast<std::size_t>(images->columns() * images->rows());
    from_grey(images->images.values().data() + index * each, width, height, out);
    return {};
  };
  split.picture_name = [name = split.name](std::size_t index) { return numbered(name, index); };
  return split;
}

Result<std::optional<PictureData>> open_mnist(Env& env, const std::string& folder) {
  PictureData data{"MNIST", {}, {}};
  for (const bool train : {true, false}) {
    const std::string name = (train ? data::train_files() : data::test_files()).images;
    std::string dotted = name;
    dotted.replace(name.find("-idx"), 1, ".");
    const Names spellings{name, name + ".gz", dotted, dotted + ".gz"};
    if (!any_file(folder, {"", "raw", "MNIST/raw"}, spellings)) continue;
    LOCKSTEP_ASSIGN(Split split, mnist_split(env, folder, train));
    data.splits.push_back(std::move(split));
  }
  if (data.splits.empty()) return std::optional<PictureData>();
  return std::optional(std::move(data));
}

// -------------------------------------------------------------------------------------------------

Result<Split> folder_split(Env& env, const std::string& root, const std::string& name) {
  LOCKSTEP_ASSIGN(data::ImageFolder read, data::read_image_folder(root));
  if (const std::string others = data::left_out_by_name(read); !others.empty()) log_info(others);
  const auto folder = std::make_shared<const data::ImageFolder>(std::move(read));
  Split split;
  split.name = name;
  split.classes = folder->classes;
  for (const data::ImageFile& file : folder->files)
    split.labels.push_back(static_cast<std::size_t>(file.label));
  split.picture = [&env, folder](std::size_t index, Image& out) -> Status {
    const std::string& path = folder->files[index].path;
    LOCKSTEP_ASSIGN(const std::string content, env.read(path, kMostFileBytes));
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(content.data());
    return data::image::decode({bytes, content.size()}, path, out);
  };
  split.picture_name = [folder, root](std::size_t index) {
    const std::string below = folder->files[index].path.substr(root.size());
    return below.substr(std::min(below.find_first_not_of('/'), below.size()));
  };
  return split;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Those with a split's usual name, in the order of a sheet.
Names split_folders(const Names& names) {
  constexpr std::array<std::string_view, 7> kUsual{"train", "training", "validation", "valid",
                                                   "val",   "test",     "testing"};
  Names found;
  for (const std::string_view usual : kUsual)
    std::ranges::copy_if(names, std::back_inserter(found),
                         [&](const std::string& name) { return lower(name) == usual; });
  return found;
}

Result<PictureData> open_folders(Env& env, const std::string& root) {
  PictureData data{"folders of pictures by class",
                   {},
                   {transforms::AutoAugment{}, transforms::Resize{244, 244}}};
  LOCKSTEP_ASSIGN(const auto names, env.list(root));
  for (const std::string& name : split_folders(names)) {
    if (!is_folder(root + "/" + name)) continue;
    LOCKSTEP_ASSIGN(Split split, folder_split(env, root + "/" + name, name));
    split.training = lower(name).starts_with("train");
    data.splits.push_back(std::move(split));
  }
  if (!data.splits.empty()) return data;
  auto split = folder_split(env, root, "all");
  if (!split.ok())
    return Error{split.error().kind,
                 "'" + root +
                     "' is no data set that is known here (CIFAR, MNIST, or folders of "
                     "pictures by class, maybe below train/, validation/ and test/): " +
                     split.error().message};
  split->training = true;
  data.splits.push_back(*std::move(split));
  return data;
}

}  // namespace

Result<PictureData> open_pictures(Env& env, const std::string& folder) {
  if (const auto hidden = hidden_at({folder})) return *hidden;
  if (!env.exists(folder)) return Error{ErrorKind::kBadData, "'" + folder + "' does not exist"};
  if (!is_folder(folder)) return Error{ErrorKind::kBadData, "'" + folder + "' is no folder"};
  LOCKSTEP_ASSIGN(auto cifar, open_cifar(env, folder));
  if (cifar) return *std::move(cifar);
  LOCKSTEP_ASSIGN(auto mnist, open_mnist(env, folder));
  if (mnist) return *std::move(mnist);
  return open_folders(env, folder);
}

}  // namespace lockstep::inspect
