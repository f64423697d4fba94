#include "comm/fake/plain_sum.h"

#include <cassert>
#include <cstring>

#include "comm/half.h"

namespace lockstep::comm::fake {
namespace {

template <class T>
T load(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

void add_element(DType dtype, Bytes& a, const Bytes& b, std::size_t i) {
  using Half = std::uint16_t;
  switch (dtype) {
    case DType::kFloat32:
      return store(a, i, load<float>(a, i) + load<float>(b, i));
    case DType::kFloat64:
      return store(a, i, load<double>(a, i) + load<double>(b, i));
    case DType::kBFloat16:
      return store(a, i, to_bf16(from_bf16(load<Half>(a, i)) + from_bf16(load<Half>(b, i))));
    case DType::kFloat16:
      return store(a, i, to_fp16(from_fp16(load<Half>(a, i)) + from_fp16(load<Half>(b, i))));
  }
}

void scale_element(DType dtype, Bytes& a, std::size_t i, float scale) {
  using Half = std::uint16_t;
  switch (dtype) {
    case DType::kFloat32:
      return store(a, i, load<float>(a, i) * scale);
    case DType::kFloat64:
      return store(a, i, load<double>(a, i) * static_cast<double>(scale));
    case DType::kBFloat16:
      return store(a, i, to_bf16(from_bf16(load<Half>(a, i)) * scale));
    case DType::kFloat16:
      return store(a, i, to_fp16(from_fp16(load<Half>(a, i)) * scale));
  }
}

Bytes value(DType dtype, std::uint32_t virtual_workers, const Supplied& supplied,
            coord::Node node) {
  if (const Bytes* bytes = supplied(node)) return *bytes;
  assert(node.level > 0);
  const coord::Node left{node.level - 1, node.index * 2};
  const coord::Node right{node.level - 1, node.index * 2 + 1};
  Bytes sum = value(dtype, virtual_workers, supplied, left);
  if (right.first_leaf() >= virtual_workers) return sum;
  const Bytes other = value(dtype, virtual_workers, supplied, right);
  for (std::size_t i = 0; i < sum.size() / size_of(dtype); ++i) add_element(dtype, sum, other, i);
  return sum;
}

}  // namespace

Bytes plain_sum(DType dtype, std::uint32_t virtual_workers, const Supplied& supplied) {
  std::uint32_t level = 0;
  while ((1U << level) < virtual_workers) ++level;
  return value(dtype, virtual_workers, supplied, {level, 0});
}

void plain_scale(DType dtype, Bytes& data, float scale) {
  if (scale == 1.0F) return;
  for (std::size_t i = 0; i < data.size() / size_of(dtype); ++i)
    scale_element(dtype, data, i, scale);
}

}  // namespace lockstep::comm::fake
