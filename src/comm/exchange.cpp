#include "comm/exchange.h"

#include <cstring>

namespace lockstep::comm {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 8;
    case DType::kFloat32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}

void Exchange::lend(std::uint32_t leaf, std::uint32_t bucket, std::uint64_t offset,
                    std::span<const std::byte> source) {
  if (!source.empty())
    std::memcpy(piece(leaf, bucket).data() + offset, source.data(), source.size());
}

}  // namespace lockstep::comm
