// Any bytes as a CIFAR file: refused, or as many pictures as labels, each below its limit. The
// first byte says which format.
#include <cstdint>
#include <cstdlib>

#include "data/vision/cifar.h"

using namespace lockstep::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const CifarKind kind = (*data & 1) != 0 ? CifarKind::k10 : CifarKind::k100;
  const bool pickled = (*data & 2) != 0;
  const std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  Cifar out;
  const auto read = pickled ? parse_cifar_pickle(std::as_bytes(std::span(file)), "fuzz", kind, out)
                            : parse_cifar_binary(file, "fuzz", kind, out);
  if (!read.ok()) return 0;
  if (out.pixels.size() != out.count() * kCifarBytes) std::abort();
  for (const std::uint8_t label : out.labels)
    if (label >= static_cast<int>(kind)) std::abort();
  return 0;
}
