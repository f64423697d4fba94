// A tensor as bytes: what it is called, what it holds, where it lies. No libtorch.
//
// Bytes are row-major (C order), little-endian, without gaps. Views own nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::checkpoint {

// Those of safetensors that are read, in its order; the others are listed by name (kOpaque).
enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kOpaque,  // none of these; TensorInfo::other names it
};

std::string_view name_of(DType dtype);  // "F32"; not of kOpaque
std::size_t size_of(DType dtype);       // bytes of an element, which is also its alignment
std::optional<DType> dtype_of(std::string_view name);  // of one that is read
// Bits of an element of every dtype that safetensors lists (safetensors/src/tensor.rs, Dtype);
// nullopt: a dtype that it does not have.
std::optional<unsigned> bits_of(std::string_view name);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;  // empty: a scalar (rank 0)
  std::string other = {};            // kOpaque: its name, "C64"

  bool readable() const { return dtype != DType::kOpaque; }
  std::string dtype_name() const { return readable() ? std::string(name_of(dtype)) : other; }

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct NamedBytes {
  TensorInfo info;
  std::span<const std::byte> bytes;
};

struct NamedTarget {
  TensorInfo info;
  std::span<std::byte> bytes;
};

// Product of the shape; kBadData when that does not fit 64 bits.
Result<std::uint64_t> element_count(const TensorInfo& info);
// That times the element's size; kBadData when it does not fit 64 bits, or is no whole number of
// bytes. nullopt: of a dtype whose size is not known.
Result<std::optional<std::uint64_t>> stored_size(const TensorInfo& info);
// The same of one that is readable().
Result<std::uint64_t> byte_size(const TensorInfo& info);
// kBadData, naming it: for who asks for the values of one that is not readable().
Error unreadable(const TensorInfo& info);

std::string describe(const TensorInfo& info);  // "F32 [64, 3, 7, 7]"
std::string quote(std::string_view name);      // for messages: escaped, cut at 120 bytes

// SHA-256 over names in byte order, each name's bytes and then the tensor's: the `weights sha256`
// line.
std::string weights_sha256(std::span<const NamedBytes> tensors);

}  // namespace lockstep::checkpoint
