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

// kBadData: more than 64 dimensions, or an element outside of the storage.
Status check_bounds(const TensorValue& tensor);

// Row-major bytes. An expanded tensor (stride 0) above 1 GiB is refused: kBadData.
Result<std::vector<std::byte>> packed(const TensorValue& tensor);
bool is_contiguous(const TensorValue& tensor);
TensorInfo info_of(const std::string& name, const TensorValue& tensor);

// The globals of torch.save: rebuild functions, storages, Parameter, Size, device, dtypes.
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
    std::uint64_t element_bytes = 1;
  };
  // ("storage", class, key, location, elements[, view]): torch/serialization.py, persistent_id.
  // CPU and accelerators' locations alike; the tensors are on the CPU.
  Result<pickle::Value> resolve(const pickle::Value& id);
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep::checkpoint::pt
