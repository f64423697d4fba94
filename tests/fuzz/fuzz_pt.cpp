// Any bytes as a .pt file, and any bytes as the pickle in a sound archive: refused, or tensors that
// lie within their storages and are written and read again.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "checkpoint/pt/reader.h"
#include "checkpoint/pt/writer.h"
#include "checkpoint/pt/zip_writer.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::checkpoint::pt;
using pickle::Value;

namespace {

class Memory final : public ReadableFile, public File {
 public:
  explicit Memory(std::string content = "") : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > content_.size() || out.size() > content_.size() - offset)
      return Error{ErrorKind::kBadData, "the end"};
    if (!out.empty()) std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }
  Status append(std::span<const std::byte> data) override {
    content_.append(reinterpret_cast<const char*>(data.data()), data.size());
    return {};
  }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  std::string content_;
};

// Sums what it can reach, so that a sanitizer sees each byte read.
unsigned touch(const Value& value) {
  unsigned sum = 0;
  if (const auto tensor = value.as<TensorValue>()) {
    require(check_bounds(*tensor).ok());
    for (const std::byte b : tensor->storage->bytes()) sum += std::to_integer<unsigned>(b);
    std::uint64_t elements = 1;
    for (const std::uint64_t n : tensor->shape)
      if (__builtin_mul_overflow(elements, n, &elements)) elements = ~std::uint64_t{0};
    if (elements < 10000) require(packed(*tensor).ok());
  }
  if (const auto leaf = value.as<TensorLeaf>()) {
    require(!leaf->dtype.empty() && leaf->shape.size() <= 64 && !leaf->info("x").readable());
    sum += static_cast<unsigned>(describe(leaf->info("x")).size());
  }
  if (const auto* const all = value.sequence())
    for (const Value& item : all->items) sum += touch(item);
  if (const auto* const dict = value.dict_value())
    for (const auto& [key, item] : dict->pairs) sum += touch(item);
  return sum;
}

ReadLimits small() {
  ReadLimits limits;
  limits.inflated_bytes = 1 << 20;
  limits.pickle.values = 20000;
  limits.pickle.expanded = 100000;
  return limits;
}

void check(Memory file) {
  const auto value = parse(file, small());
  if (!value.ok()) return;
  const unsigned sum = touch(*value);
  Memory out;
  if (!write_to(out, "fuzz", *value).ok()) return;
  ReadLimits limits = small();
  limits.pickle.values = 10000000;  // what was shared is written out
  const auto again = parse(out, limits);
  require(again.ok() && touch(*again) == sum);
}

// As Python's, and as C++'s with its code.
Memory archive_around(std::string_view pickle) {
  Memory file;
  ZipWriter zip(file);
  require(zip.add("m/data.pkl", pickle).ok() && zip.add("m/data/0", std::string(24, 'x')).ok());
  require(zip.add("m/code/__torch__.py", "def").ok() && zip.add("m/constants.pkl", "x").ok());
  require(zip.add("m/version", "3\n").ok() && zip.finish().ok());
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(Memory(text));
  check(archive_around(text));
  return 0;
}
