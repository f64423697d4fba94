// torch's tensors as a pickle has them: a view of a storage. No libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor.h"
#include "pickle/reader.h"
#include "pickle/value.h"

namespace lockstep::checkpoint::pt {

inline constexpr std::size_t kMaxRank = 64;

// Bytes that tensors share; kept alive by `owner`, aligned to 64.
struct Storage {
  std::uint64_t size = 0;  // bytes
  const std::byte* data = nullptr;
  std::shared_ptr<void> owner;

  std::span<const std::byte> bytes() const { return {data, static_cast<std::size_t>(size)}; }
};

// kInternal when there is no memory; the content is not set.
Result<std::shared_ptr<Storage>> allocate(std::uint64_t bytes);

// As a pickle::Value: an object. What the reader gives lies within its storage.
struct TensorValue final : pickle::Object {
  std::shared_ptr<Storage> storage;
  DType dtype = DType::kF32;
  std::uint64_t offset = 0;            // bytes
  std::vector<std::uint64_t> shape;    // empty: a scalar
  std::vector<std::uint64_t> strides;  // elements
  bool requires_grad = false;
  bool parameter = false;

  std::string type() const override { return parameter ? "a Parameter" : "a tensor"; }
  // (requires_grad, volatile, hooks), as torch 0.1 to 0.3 wrote a Parameter.
  Status build(const pickle::Value& state) override;
};

// A tensor of a kind that is not read: complex, quantized, sparse, nested, on "meta", of a dtype
// that checkpoint/tensor.h lacks. As a pickle::Value: an object, and a leaf.
struct TensorLeaf final : pickle::Object {
  std::string dtype;                 // "C64", "F32 (sparse_coo)"
  std::vector<std::uint64_t> shape;  // of a nested one: how many are in it

  std::string type() const override { return "a tensor " + describe(info("")); }
  TensorInfo info(const std::string& name) const { return {name, DType::kOpaque, shape, dtype}; }
  // What torch 0.1 to 0.3 wrote of a Parameter is dropped.
  Status build(const pickle::Value& /*state*/) override { return {}; }
};

// kBadData: more than 64 dimensions, or an element outside of the storage.
Status check_bounds(const TensorValue& tensor);

// Its row-major bytes are more than 1 GiB and more than its storage has (stride 0): a few bytes of
// a file must not become a machine's memory.
bool is_too_expanded(const TensorValue& tensor);
// Row-major bytes; kBadData where is_too_expanded().
Result<std::vector<std::byte>> packed(const TensorValue& tensor);
bool is_contiguous(const TensorValue& tensor);
TensorInfo info_of(const std::string& name, const TensorValue& tensor);

// The globals of torch.save and torch.jit.save: rebuild functions, storages, Parameter, Size,
// device, dtypes, typed lists.
std::span<const pickle::Global> torch_globals();

// Python's names of a dtype.
struct TorchType {
  DType dtype;
  const char* name;     // "float32"
  const char* storage;  // "FloatStorage"; nullptr: an UntypedStorage and _rebuild_tensor_v3
};
const TorchType& torch_type(DType dtype);

// What persistent ids name: storages, with their bytes still to come.
class StorageTable {
 public:
  struct Entry {
    std::shared_ptr<Storage> storage;
    std::uint64_t element_bytes = 1;  // 0: of a class that is not known
    // Something in the result holds it, once the pickle is read; others are not read.
    bool wanted() const { return storage.use_count() > 1; }
  };
  // ("storage", class, key, location, elements[, view]): torch/serialization.py, persistent_id.
  // Of whatever device, the tensors are on the CPU. ("module", class, file, text): the class, a
  // leaf.
  Result<pickle::Value> resolve(const pickle::Value& id);
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep::checkpoint::pt
