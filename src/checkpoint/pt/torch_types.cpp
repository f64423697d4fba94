#include "checkpoint/pt/torch_types.h"

#include <array>
#include <utility>

#include "base/errors.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Value;

constexpr std::array<TorchType, 15> kTypes{{{DType::kBool, "bool", "BoolStorage"},
                                            {DType::kU8, "uint8", "ByteStorage"},
                                            {DType::kI8, "int8", "CharStorage"},
                                            {DType::kF8E5M2, "float8_e5m2", nullptr},
                                            {DType::kF8E4M3, "float8_e4m3fn", nullptr},
                                            {DType::kI16, "int16", "ShortStorage"},
                                            {DType::kU16, "uint16", nullptr},
                                            {DType::kF16, "float16", "HalfStorage"},
                                            {DType::kBF16, "bfloat16", "BFloat16Storage"},
                                            {DType::kI32, "int32", "IntStorage"},
                                            {DType::kU32, "uint32", nullptr},
                                            {DType::kF32, "float32", "FloatStorage"},
                                            {DType::kF64, "float64", "DoubleStorage"},
                                            {DType::kI64, "int64", "LongStorage"},
                                            {DType::kU64, "uint64", nullptr}}};

// Storages whose elements we do not have.
struct OtherStorage {
  std::string_view name;
  std::string_view dtype;
  std::uint64_t bytes;
};
constexpr std::array kOthers{OtherStorage{"torch.ComplexFloatStorage", "C64", 8},
                             OtherStorage{"torch.ComplexDoubleStorage", "C128", 16},
                             OtherStorage{"torch.QInt8Storage", "qint8", 1},
                             OtherStorage{"torch.QUInt8Storage", "quint8", 1},
                             OtherStorage{"torch.QInt32Storage", "qint32", 4},
                             OtherStorage{"torch.QUInt4x2Storage", "quint4x2", 1},
                             OtherStorage{"torch.QUInt2x4Storage", "quint2x4", 1}};

// safetensors' names of torch's dtypes that we do not have.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOtherTypes{
    {{"torch.complex64", "C64"},
     {"torch.complex128", "C128"},
     {"torch.float8_e8m0fnu", "F8_E8M0"},
     {"torch.float8_e4m3fnuz", "F8_E4M3FNUZ"},
     {"torch.float8_e5m2fnuz", "F8_E5M2FNUZ"}}};

std::string last_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

const TorchType& torch_type(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

std::string global_name(const Value& value) {
  const auto named = value.as<pickle::Named>();
  return named == nullptr ? value.type() : std::string(named->global().name);
}

Result<Element> element_of(const Value& dtype) {
  const std::string name = global_name(dtype);
  for (const TorchType& type : kTypes)
    if (name == std::string("torch.") + type.name) return Element{type.dtype, {}};
  for (const auto& [torchs, ours] : kOtherTypes)
    if (name == torchs) return Element{DType::kOpaque, std::string(ours)};
  if (dtype.as<pickle::Opaque>() == nullptr) return bad_data(dtype.type() + " is no dtype");
  return Element{DType::kOpaque, last_of(name)};
}

Result<StorageClass> storage_class(const Value& value) {
  const std::string name = global_name(value);
  if (name == "torch.storage.UntypedStorage") return StorageClass{{DType::kU8, {}}, 1};
  for (const TorchType& type : kTypes)
    if (type.storage != nullptr && name == std::string("torch.") + type.storage)
      return StorageClass{{type.dtype, {}}, size_of(type.dtype)};
  for (const OtherStorage& other : kOthers)
    if (name == other.name)
      return StorageClass{{DType::kOpaque, std::string(other.dtype)}, other.bytes};
  if (value.as<pickle::Opaque>() == nullptr) return bad_data(value.type() + " is no storage class");
  return StorageClass{{DType::kOpaque, last_of(name)}, 0};
}

}  // namespace lockstep::checkpoint::pt
