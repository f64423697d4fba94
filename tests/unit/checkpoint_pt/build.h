// .pt files made in the test, and files in memory.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/pt/reader.h"
#include "checkpoint/pt/writer.h"
#include "support/deflated.h"
#include "support/temp_folder.h"
#include "unit/pickle/build.h"

namespace lockstep::checkpoint::pt::test {

using pickle::Value;
using pickle::test::bytes_of;
using pickle::test::global;
using pickle::test::int1;
using pickle::test::int4;
using pickle::test::little;
using pickle::test::number;
using pickle::test::old_str;
using pickle::test::pickled;
using pickle::test::times;
using pickle::test::unicode;

class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > content_.size() || out.size() > content_.size() - offset)
      return Error{ErrorKind::kBadData,
                   "the file ends before byte " + std::to_string(offset + out.size())};
    if (!out.empty()) std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }

 private:
  std::string content_;
};

class MemoryOut final : public File {
 public:
  Status append(std::span<const std::byte> data) override {
    content.append(reinterpret_cast<const char*>(data.data()), data.size());
    return {};
  }
  Status sync() override { return {}; }
  Status close() override { return {}; }
  std::string content;
};

inline std::string show(const Value& value);
inline std::string show_tensor(const TensorValue& tensor) {
  std::ostringstream text;
  text << (tensor.parameter ? "parameter(" : "tensor(") << name_of(tensor.dtype);
  for (const auto n : tensor.shape) text << " " << n;
  text << " |" << std::hex;
  const auto bytes = packed(tensor);
  if (!bytes.ok()) return "error: " + bytes.error().message;
  for (const std::byte b : *bytes) text << " " << std::to_integer<int>(b);
  return text.str() + (tensor.requires_grad ? " grad)" : ")");
}
// As pickle::test::show(), and tensors with their bytes.
inline std::string show(const Value& value) {
  if (const auto tensor = value.as<TensorValue>()) return show_tensor(*tensor);
  if (const auto leaf = value.as<TensorLeaf>()) return "<" + describe(leaf->info("")) + ">";
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (const auto* const dict = value.dict_value()) {
    for (const auto& [key, item] : dict->pairs) add(show(key) + ": " + show(item));
    return (dict->ordered  ? "Ordered{"
            : dict->object ? "object{"
                           : "{") +
           text + "}" + (dict->attributes.is_none() ? "" : "+" + show(dict->attributes));
  }
  if (const auto* const all = value.sequence()) {
    for (const Value& item : all->items) add(show(item));
    return all->is_tuple ? "(" + text + ")" : "[" + text + "]";
  }
  return pickle::test::show(value);
}

inline std::string shown(const std::string& content, const ReadLimits& limits = {}) {
  MemoryFile file(content);
  const auto value = parse(file, limits);
  return value.ok() ? show(*value) : "error: " + value.error().message;
}

inline Value tensor_of(DType dtype, std::vector<std::uint64_t> shape, const std::string& bytes) {
  auto tensor = std::make_shared<TensorValue>();
  tensor->dtype = dtype;
  tensor->storage = *allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(tensor->storage->owner.get(), bytes.data(), bytes.size());
  tensor->strides.assign(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    tensor->strides[i - 1] = tensor->strides[i] * shape[i];
  tensor->shape = std::move(shape);
  return tensor;
}

inline std::string file_of(const Value& value, std::uint64_t zip64_from = 0xffffffff) {
  MemoryOut file;
  const Status written = write_to(file, "archive", value, zip64_from);
  EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
  return file.content;
}

// A zip of other people's making: one entry after another, with options that torch does not use.
struct Packed {
  std::string name;
  std::string content;
  bool deflate = false;
  bool descriptor = false;
  std::uint64_t claim = 0;  // another size than the content's
};

inline std::string zip_of(const std::vector<Packed>& entries) {
  std::string file, directory;
  for (const Packed& entry : entries) {
    const std::string data =
        entry.deflate ? lockstep::test::deflated(entry.content, -MAX_WBITS) : entry.content;
    const auto crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(entry.content.data()), entry.content.size());
    const std::uint64_t size = entry.claim != 0 ? entry.claim : entry.content.size();
    const std::uint64_t packed = entry.claim != 0 && !entry.deflate ? size : data.size();
    const std::string kind =
        little(entry.descriptor ? 8 : 0, 2) + little(entry.deflate ? 8 : 0, 2) + little(0, 4);
    const std::string sizes = little(crc, 4) + little(packed, 4) + little(size, 4);
    const std::string names = little(entry.name.size(), 2) + little(0, 2);
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + kind + sizes + names +
                 little(0, 10) + little(file.size(), 4) + entry.name;
    file += "PK\x03\x04" + little(20, 2) + kind +
            (entry.descriptor ? little(0, 8) + little(0, 4) : sizes) + names + entry.name + data;
    if (entry.descriptor) file += "PK\x07\x08" + sizes;
  }
  const std::string end = "PK\x05\x06" + little(0, 4) + little(entries.size(), 2) +
                          little(entries.size(), 2) + little(directory.size(), 4) +
                          little(file.size(), 4) + little(0, 2);
  return file + directory + end;
}

// ("storage", torch.FloatStorage, key, location, elements) and Q
inline std::string storage(const std::string& key, int elements,
                           const std::string& location = "cpu",
                           const std::string& type = "FloatStorage",
                           const std::string& module = "torch") {
  return "(" + unicode("storage") + global(module, type) + unicode(key) + unicode(location) +
         int1(elements) + "tQ";
}
inline std::string no_hooks() { return "\x89" + global("collections", "OrderedDict") + ")R"; }
inline std::string rebuild_v2(const std::string& storage, int offset, const std::string& sizes,
                              const std::string& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + int1(offset) + "(" + sizes +
         "t(" + strides + "t" + no_hooks() + "tR";
}
inline std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}
// A zip around a pickle, as torch would make it, with storage "0".
inline std::string around(const std::string& body,
                          const std::string& data = floats({1, 2, 3, 4, 5, 6})) {
  return zip_of({{"m/data.pkl", pickled(body)}, {"m/data/0", data}, {"m/version", "3\n"}});
}

inline std::string stream_start() {
  return std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.",
                     21) +
         pickled("}(" + unicode("protocol_version") + "M\xe9\x03" + unicode("little_endian") +
                 "\x88" + unicode("type_sizes") + "}u");
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lockstep::checkpoint::pt::test
