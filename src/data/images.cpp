#include "data/images.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::data {
namespace {

Error bad(const std::string& path, const std::string& what) {
  return {ErrorKind::kBadData, "'" + path + "': " + what};
}

Status check_kind(const IdxArray& array, const std::string& path, std::size_t rank,
                  const std::string& magic) {
  const IdxHeader& header = array.header;
  if (header.type == IdxType::kUInt8 && header.sizes.size() == rank) return {};
  return bad(path, "holds type " + std::to_string(static_cast<int>(header.type)) + " of rank " +
                       std::to_string(header.sizes.size()) + ", expected bytes (type 8) of rank " +
                       std::to_string(rank) + " (magic " + magic +
                       "); are images and labels mixed up?");
}

Status check_labels(const IdxArray& labels, const std::string& path, int classes) {
  const auto values = labels.values();
  const auto wrong =
      std::find_if(values.begin(), values.end(), [&](std::uint8_t v) { return v >= classes; });
  if (wrong == values.end()) return {};
  return bad(path, "label " + std::to_string(*wrong) + " at index " +
                       std::to_string(wrong - values.begin()) + ", expected 0 to " +
                       std::to_string(classes - 1) +
                       "; the file is damaged or of another data set");
}

// FOLDER/MNIST/raw, FOLDER/raw, FOLDER.
std::vector<std::string> places(const std::string& folder) {
  return {folder + "/MNIST/raw", folder + "/raw", folder};
}

std::optional<std::string> find_in(Env& env, const std::string& place, const std::string& name) {
  std::string dotted = name;
  dotted.replace(name.find("-idx"), 4, ".idx");
  for (const std::string& file : {name, name + ".gz", dotted, dotted + ".gz"})
    if (env.exists(place + "/" + file)) return place + "/" + file;
  return std::nullopt;
}

std::string why_not(Env& env, const std::string& folder, const std::string& name) {
  const auto names = env.list(folder);
  if (names.ok()) return "neither '" + name + "' nor '" + name + ".gz' in it";
  if (names.error().kind == ErrorKind::kDisk) return "it cannot be read, " + names.error().message;
  return env.exists(folder) ? "it is no folder" : "no such folder";
}

Result<std::string> find_file(Env& env, const std::string& folder, const std::string& name) {
  for (const std::string& place : places(folder))
    if (auto found = find_in(env, place, name)) return *found;
  return Error{ErrorKind::kBadData,
               "data folder '" + folder + "': " + why_not(env, folder, name) +
                   " (looked in it, in raw/ and in MNIST/raw/); give the folder that holds "
                   "MNIST, fetch it by `lockstep data get mnist " +
                   folder + "`, or take `--data synthetic`"};
}

}  // namespace

ImageFiles train_files() { return {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}; }
ImageFiles test_files() { return {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}; }

Result<LabelledImages> read_images(Env& env, const std::string& images_path,
                                   const std::string& labels_path, int classes) {
  LOCKSTEP_ASSIGN(IdxArray images, read_idx(env, images_path));
  LOCKSTEP_TRY(check_kind(images, images_path, 3, "00 00 08 03"));
  LOCKSTEP_ASSIGN(IdxArray labels, read_idx(env, labels_path));
  LOCKSTEP_TRY(check_kind(labels, labels_path, 1, "00 00 08 01"));
  if (images.header.sizes[0] != labels.header.sizes[0])
    return bad(labels_path, "has " + std::to_string(labels.header.sizes[0]) + " labels, but '" +
                                images_path + "' has " + std::to_string(images.header.sizes[0]) +
                                " images; take both from the same set");
  if (images.values().empty())
    return bad(images_path, "holds no images; fetch or copy the file again");
  LOCKSTEP_TRY(check_labels(labels, labels_path, classes));
  return LabelledImages{std::move(images), std::move(labels)};
}

Result<LabelledImages> read_mnist(Env& env, const std::string& folder, const ImageFiles& files) {
  LOCKSTEP_ASSIGN(const std::string images, find_file(env, folder, files.images));
  LOCKSTEP_ASSIGN(const std::string labels, find_file(env, folder, files.labels));
  return read_images(env, images, labels);
}

}  // namespace lockstep::data
