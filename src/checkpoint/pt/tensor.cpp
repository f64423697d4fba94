#include "checkpoint/pt/tensor.h"

#include <cstring>
#include <new>

#include "base/errors.h"

namespace lockstep::checkpoint::pt {
namespace {

constexpr std::align_val_t kMemoryAlignment{64};
constexpr std::uint64_t kMaxExpandedBytes = std::uint64_t{1} << 30;

bool is_empty(const TensorValue& tensor) {
  for (const std::uint64_t extent : tensor.shape)
    if (extent == 0) return true;
  return false;
}

Error outside(const TensorValue& tensor) {
  return bad_data(describe(info_of("", tensor)) + " goes beyond its storage of " +
                  std::to_string(tensor.storage->size) + " bytes");
}

void gather(const TensorValue& tensor, std::size_t dimension, const std::byte* from,
            std::byte*& to) {
  const std::size_t size = size_of(tensor.dtype);
  if (dimension == tensor.shape.size()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  for (std::uint64_t i = 0; i < tensor.shape[dimension]; ++i)
    gather(tensor, dimension + 1, from + i * tensor.strides[dimension] * size, to);
}

}  // namespace

Result<std::shared_ptr<Storage>> allocate(std::uint64_t bytes) {
  void* const memory =
      ::operator new(static_cast<std::size_t>(bytes), kMemoryAlignment, std::nothrow);
  if (memory == nullptr)
    return Error{ErrorKind::kInternal,
                 "no memory for a storage of " + std::to_string(bytes) + " bytes"};
  auto storage = std::make_shared<Storage>();
  storage->owner =
      std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, kMemoryAlignment); });
  storage->size = bytes;
  storage->data = static_cast<const std::byte*>(memory);
  return storage;
}

Status check_bounds(const TensorValue& tensor) {
  if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > kMaxRank)
    return bad_data("a tensor of " + std::to_string(tensor.shape.size()) + " sizes and " +
                    std::to_string(tensor.strides.size()) + " strides; at most " +
                    std::to_string(kMaxRank) + " of each, and as many");
  LOCKSTEP_ASSIGN(const std::uint64_t bytes, byte_size(info_of("", tensor)));
  if (bytes >> 62 != 0) return bad_data("a tensor above 2^62 bytes");
  if (is_empty(tensor)) return tensor.offset <= tensor.storage->size ? Status() : outside(tensor);
  std::uint64_t last = 1;  // elements up to the last one's end
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::uint64_t step = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return outside(tensor);
  }
  std::uint64_t end = 0;
  if (__builtin_mul_overflow(last, size_of(tensor.dtype), &end) ||
      __builtin_add_overflow(end, tensor.offset, &end) || end > tensor.storage->size)
    return outside(tensor);
  return {};
}

bool is_contiguous(const TensorValue& tensor) {
  std::uint64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return is_empty(tensor);
    expected *= tensor.shape[i];
  }
  return true;
}

bool is_too_expanded(const TensorValue& tensor) {
  const auto bytes = byte_size(info_of("", tensor));
  return !bytes.ok() || (*bytes > tensor.storage->size && *bytes > kMaxExpandedBytes);
}

Result<std::vector<std::byte>> packed(const TensorValue& tensor) {
  LOCKSTEP_TRY(check_bounds(tensor));
  LOCKSTEP_ASSIGN(const std::uint64_t bytes, byte_size(info_of("", tensor)));
  if (is_too_expanded(tensor))
    return bad_data(describe(info_of("", tensor)) + " is expanded from " +
                    std::to_string(tensor.storage->size) + " bytes; at most " +
                    std::to_string(kMaxExpandedBytes) + " are written out");
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  std::byte* to = out.data();
  if (out.empty()) return out;
  if (is_contiguous(tensor))
    std::memcpy(to, tensor.storage->data + tensor.offset, out.size());
  else
    gather(tensor, 0, tensor.storage->data + tensor.offset, to);
  return out;
}

TensorInfo info_of(const std::string& name, const TensorValue& tensor) {
  return {name, tensor.dtype, tensor.shape};
}

}  // namespace lockstep::checkpoint::pt
