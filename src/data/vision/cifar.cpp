#include "data/vision/cifar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "data/vision/python_sequences.h"
#include "pickle/array.h"
#include "pickle/reader.h"

namespace lockstep::data {
namespace {

// The largest file, CIFAR-100's pickled training set, has 155 MB.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

Error bad(std::string_view name, const std::string& what) {
  return {ErrorKind::kBadData,
          "CIFAR file '" + std::string(name) + "': " + what + "; download it again"};
}

std::size_t classes_of(CifarKind kind) { return static_cast<std::size_t>(kind); }

Status check_labels(std::span<const std::uint8_t> labels, std::string_view name, CifarKind kind) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes_of(kind))
      return bad(name, "picture " + std::to_string(i) + " has label " + std::to_string(labels[i]) +
                           ", the limit is " + std::to_string(classes_of(kind) - 1));
  return {};
}

Result<pickle::Document> unpickle(std::span<const std::byte> file, std::string_view name) {
  static const pickle::Table table =
      pickle::table_of({pickle::plain_globals(), pickle::numpy_globals(), sequence_globals()});
  auto read = pickle::read(file, {.globals = table, .persistent = {}, .advice = {}, .limits = {}});
  if (!read.ok()) return bad(name, read.error().message);
  return read;
}

std::string shape_of(const pickle::Array& array) {
  std::string text;
  for (const std::uint64_t size : array.shape())
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return array.dtype() + " [" + text + "]";
}

// What is not as it was published was changed by somebody: no download would help.
Error changed(std::string_view name, const std::string& what) {
  return {ErrorKind::kBadData, "CIFAR file '" + std::string(name) + "': " + what};
}

// [count], or with other dimensions of one: as numbers in C's order, whatever their width.
std::optional<std::vector<std::int64_t>> whole_numbers(const pickle::Array& array) {
  const std::string_view bytes = array.bytes();
  const auto width = static_cast<std::size_t>(array.dtype().back() - '0');
  const bool sign = array.dtype().front() == 'i';
  const auto dimensions = std::ranges::count_if(array.shape(), [](auto size) { return size != 1; });
  if ((!sign && array.dtype().front() != 'u') || dimensions > 1 || array.shape().empty()) return {};
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, width);
    const auto unused = static_cast<int>(64 - 8 * width);
    numbers.push_back(sign ? static_cast<std::int64_t>(bits << unused) >> unused
                           : static_cast<std::int64_t>(bits));
  }
  return numbers;
}

// A list, tuple or another sequence of ints, numpy's among them; bytes, which are ints to Python;
// an array.
std::optional<std::vector<std::int64_t>> whole_numbers(const pickle::Value& value) {
  if (const auto array = value.as<pickle::Array>()) return whole_numbers(*array);
  std::vector<std::int64_t> numbers;
  if (const std::string* const bytes = value.bytes()) {
    for (const char c : *bytes) numbers.push_back(static_cast<unsigned char>(c));
    return numbers;
  }
  if (value.sequence() == nullptr) return {};
  for (const pickle::Value& item : value.sequence()->items) {
    if (item.integer() == nullptr) return {};
    numbers.push_back(*item.integer());
  }
  return numbers;
}

std::string told(const pickle::Value& value) {
  if (const auto array = value.as<pickle::Array>()) return "an array of " + shape_of(*array);
  if (value.sequence() == nullptr) return value.type();
  const auto& items = value.sequence()->items;
  const auto other = std::ranges::find_if(
      items, [](const pickle::Value& item) { return item.integer() == nullptr; });
  return value.type() + (other == items.end() ? ""
                                              : " with " + other->type() + " at " +
                                                    std::to_string(other - items.begin()));
}

Result<std::vector<std::uint8_t>> labels_of(const pickle::Value& root, std::string_view name,
                                            CifarKind kind) {
  const std::string key = kind == CifarKind::k10 ? "labels" : "fine_labels";
  const pickle::Value* const value = root.find(key);
  if (value == nullptr) return changed(name, "there is no '" + key + "'");
  const auto numbers = whole_numbers(*value);
  if (!numbers)
    return changed(name, "'" + key + "' is " + told(*value) +
                             ": labels are whole numbers, one for each picture, in a list, a tuple "
                             "or a numpy array of one dimension");
  std::vector<std::uint8_t> labels;
  for (const std::int64_t number : *numbers) {
    if (number < 0 || static_cast<std::uint64_t>(number) >= classes_of(kind))
      return changed(name, "picture " + std::to_string(labels.size()) + " has label " +
                               std::to_string(number) + ", 0 to " +
                               std::to_string(classes_of(kind) - 1) + " are possible");
    labels.push_back(static_cast<std::uint8_t>(number));
  }
  return labels;
}

// [count, 3072] of numpy; in Fortran's order each byte of a picture lies `count` apart.
void append_pictures(const pickle::Array& data, std::string& pixels) {
  const std::string_view bytes = data.bytes();
  if (!data.fortran_order()) {
    pixels += bytes;
    return;
  }
  const std::size_t count = bytes.size() / kCifarBytes;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < kCifarBytes; ++j) pixels += bytes[j * count + i];
}

struct Layout {
  std::string folder;              // below the one that is named
  std::vector<std::string> files;  // of the split
  std::string names, key;          // where the classes' names are
};

Layout pickles(CifarKind kind, bool train) {
  if (kind == CifarKind::k100)
    return {"cifar-100-python", {train ? "train" : "test"}, "meta", "fine_label_names"};
  Layout layout{"cifar-10-batches-py", {"test_batch"}, "batches.meta", "label_names"};
  if (train)
    layout.files = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  return layout;
}

Layout binaries(CifarKind kind, bool train) {
  Layout layout = pickles(kind, train);
  for (std::string& file : layout.files) file += ".bin";
  layout.folder = kind == CifarKind::k10 ? "cifar-10-batches-bin" : "cifar-100-binary";
  layout.names = kind == CifarKind::k10 ? "batches.meta.txt" : "fine_label_names.txt";
  return layout;
}

Result<std::vector<std::string>> pickled_names(Env& env, const std::string& path,
                                               const std::string& key) {
  LOCKSTEP_ASSIGN(const std::string file, env.read(path, kMaxFileBytes));
  LOCKSTEP_ASSIGN(const pickle::Document read, unpickle(std::as_bytes(std::span(file)), path));
  const pickle::Value* list = read.root.find(key);
  std::vector<std::string> names;
  if (list != nullptr && list->list_items() != nullptr)
    for (const pickle::Value& item : *list->list_items())
      names.push_back(item.text() == nullptr ? "" : *item.text());
  return names;
}

Result<std::vector<std::string>> listed_names(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string file, env.read(path, 1 << 20));
  std::vector<std::string> names;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = std::min(file.find('\n', at), file.size());
    std::string line = file.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(std::move(line));
    at = end + 1;
  }
  return names;
}

Result<Cifar> read_layout(Env& env, const std::string& folder, const Layout& layout,
                          CifarKind kind) {
  Cifar out;
  const std::string names = folder + "/" + layout.names;
  const bool pickled = !layout.files.front().ends_with(".bin");
  LOCKSTEP_ASSIGN(out.classes,
                  pickled ? pickled_names(env, names, layout.key) : listed_names(env, names));
  if (out.classes.size() != classes_of(kind) || std::ranges::count(out.classes, "") != 0)
    return bad(names, "names of " + std::to_string(classes_of(kind)) + " classes expected, found " +
                          std::to_string(out.classes.size()));
  for (const std::string& name : layout.files) {
    const std::string path = folder + "/" + name;
    LOCKSTEP_ASSIGN(const std::string file, env.read(path, kMaxFileBytes));
    LOCKSTEP_TRY(pickled ? parse_cifar_pickle(std::as_bytes(std::span(file)), path, kind, out)
                         : parse_cifar_binary(file, path, kind, out));
  }
  return out;
}

}  // namespace

Status parse_cifar_pickle(std::span<const std::byte> file, std::string_view name, CifarKind kind,
                          Cifar& out) {
  LOCKSTEP_ASSIGN(const pickle::Document read, unpickle(file, name));
  LOCKSTEP_ASSIGN(const std::vector<std::uint8_t> labels, labels_of(read.root, name, kind));
  const pickle::Value* value = read.root.find("data");
  const auto data = value == nullptr ? nullptr : value->as<pickle::Array>();
  if (data == nullptr) return changed(name, "there is no array 'data'");
  if (data->dtype() != "u1" ||
      data->shape() != std::vector<std::uint64_t>{labels.size(), kCifarBytes})
    return changed(name, "'data' is " + shape_of(*data) + ", must be u1 [" +
                             std::to_string(labels.size()) + ", " + std::to_string(kCifarBytes) +
                             "] as there are " + std::to_string(labels.size()) + " labels");
  append_pictures(*data, out.pixels);
  out.labels.insert(out.labels.end(), labels.begin(), labels.end());
  return {};
}

Status parse_cifar_binary(std::string_view file, std::string_view name, CifarKind kind,
                          Cifar& out) {
  const std::size_t head =
      kind == CifarKind::k10 ? 1 : 2;  // of 100: the coarse label, the fine one
  const std::size_t record = head + kCifarBytes;
  if (file.empty() || file.size() % record != 0)
    return bad(name, "it has " + std::to_string(file.size()) + " bytes, must be a multiple of " +
                         std::to_string(record));
  const std::size_t before = out.labels.size();
  for (std::size_t at = 0; at < file.size(); at += record) {
    out.labels.push_back(static_cast<std::uint8_t>(file[at + head - 1]));
    out.pixels += file.substr(at + head, kCifarBytes);
  }
  return check_labels(std::span(out.labels).subspan(before), name, kind);
}

Result<Cifar> read_cifar(Env& env, const std::string& folder, CifarKind kind, bool train) {
  const std::array<Layout, 2> layouts{pickles(kind, train), binaries(kind, train)};
  for (const Layout& layout : layouts)
    for (const std::string& at : {folder, folder + "/" + layout.folder})
      if (env.exists(at + "/" + layout.files.front())) return read_layout(env, at, layout, kind);
  return Error{ErrorKind::kBadData, "no CIFAR-" + std::to_string(static_cast<int>(kind)) + " in '" +
                                        folder + "': looked for " + layouts[0].files.front() +
                                        " and " + layouts[1].files.front() + " there, in " +
                                        layouts[0].folder + " and in " + layouts[1].folder};
}

}  // namespace lockstep::data
