#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/errors.h"
#include "base/text.h"
#include "pickle/array.h"
#include "pickle/reader.h"

namespace lockstep::pickle {
namespace {

constexpr std::array kDtypes{"b1", "i1", "i2", "i4", "i8", "u1",
                             "u2", "u4", "u8", "f2", "f4", "f8"};

bool is_text(const Value& value, std::string_view wanted) {
  return value.text() != nullptr && *value.text() == wanted;
}

// numpy.dtype('u1', False, True), then BUILD (3, '<', None, None, None, -1, -1, 0).
class Dtype final : public Object {
 public:
  explicit Dtype(std::string code)
      : code_(std::move(code)), plain_(std::ranges::find(kDtypes, code_) != kDtypes.end()) {}
  std::string type() const override { return "the numpy dtype '" + code() + "'"; }
  bool complete() const override { return false; }
  std::string code() const { return (big_endian_ && !plain_ ? ">" : "") + for_terminal(code_); }
  bool plain() const { return plain_; }  // of numbers that are read
  std::size_t size() const { return static_cast<std::size_t>(code_[1] - '0'); }
  // Plain numbers with their least significant byte first.
  std::shared_ptr<const std::string> little_endian(const Value& numbers) const {
    if (!big_endian_ || size() == 1) return numbers.shared_text();
    const auto swapped = std::make_shared<std::string>(*numbers.text());
    for (auto at = swapped->begin(); swapped->end() - at >= static_cast<std::ptrdiff_t>(size());
         at += static_cast<std::ptrdiff_t>(size()))
      std::reverse(at, at + static_cast<std::ptrdiff_t>(size()));
    return swapped;
  }

  Status build(const Value& state) override {
    const Items* const items = state.tuple_items();
    if (items == nullptr || items->size() < 5 || (*items)[1].text() == nullptr)
      return bad_data("a numpy dtype's state is not one");
    const std::string& order = *(*items)[1].text();
    big_endian_ = order == ">";
    const bool no_structure = std::all_of(items->begin() + 2, items->begin() + 5,
                                          [](const Value& item) { return item.is_none(); });
    plain_ = plain_ && (order == "<" || order == "|" || big_endian_) && no_structure;
    return {};
  }

 private:
  const std::string code_;
  bool plain_;
  bool big_endian_ = false;
};

Result<Value> dtype(std::span<const Value> arguments) {
  const std::string* const code = arguments.empty() ? nullptr : arguments[0].text();
  if (code == nullptr || arguments.size() > 3 || code->size() > 20)
    return bad_data("takes a dtype's code, such as 'f4'");
  return Value(std::make_shared<Dtype>(*code));
}

// (numpy.ndarray, (0,), b'b'): an empty one, which BUILD then fills. Of a class derived from it: a
// leaf.
Result<Value> reconstruct(std::span<const Value> arguments) {
  if (arguments.size() != 3) return bad_data("takes (class, shape, code)");
  if (arguments[0].as<Opaque>() != nullptr) return arguments[0];
  const auto type = arguments[0].as<Named>();
  if (type == nullptr || type->global().name != "numpy.ndarray")
    return bad_data(arguments[0].type() + " is no class of arrays");
  return Value(std::make_shared<Array>());
}

Result<Value> from_buffer(std::span<const Value> arguments) {
  const bool known =
      arguments.size() == 4 && (is_text(arguments[3], "C") || is_text(arguments[3], "F"));
  if (!known) return bad_data("takes (bytes, dtype, shape, 'C' or 'F')");
  return Array::make(arguments[1], arguments[2], is_text(arguments[3], "F"), arguments[0]);
}

double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction != 0 ? __builtin_nan("") : __builtin_inf())
                      : exponent == 0 ? __builtin_ldexp(fraction, -24)
                                      : __builtin_ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

Value number(const std::string& code, std::uint64_t bits) {
  const int unused = 64 - 8 * (code[1] - '0');
  if (code == "b1") return Value(bits != 0);
  if (code == "f2") return Value(half(static_cast<std::uint16_t>(bits)));
  if (code == "f4") return Value(double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))});
  if (code == "f8") return Value(std::bit_cast<double>(bits));
  if (code[0] == 'i') return Value(static_cast<std::int64_t>(bits << unused) >> unused);
  if (bits >> 63 != 0) return Value::opaque("the int " + std::to_string(bits));
  return Value(static_cast<std::int64_t>(bits));
}

Result<Value> scalar(std::span<const Value> arguments) {
  const auto type = arguments.size() == 2 ? arguments[0].as<Dtype>() : nullptr;
  if (type == nullptr) return bad_data("takes (dtype, its bytes)");
  if (!type->plain()) return Value::opaque("a numpy scalar of dtype '" + type->code() + "'");
  const std::string* const data = arguments[1].text();
  if (data == nullptr || data->size() != type->size()) return bad_data("takes (dtype, its bytes)");
  std::uint64_t bits = 0;
  std::memcpy(&bits, type->little_endian(arguments[1])->data(), data->size());
  return number(type->code(), bits);
}

constexpr std::array<Global, 8> kNumpy{{{"numpy.dtype", dtype},
                                        {"numpy.ndarray"},
                                        {"numpy.core.multiarray.scalar", scalar},
                                        {"numpy._core.multiarray.scalar", scalar},
                                        {"numpy.core.multiarray._reconstruct", reconstruct},
                                        {"numpy._core.multiarray._reconstruct", reconstruct},
                                        {"numpy.core.numeric._frombuffer", from_buffer},
                                        {"numpy._core.numeric._frombuffer", from_buffer}}};

}  // namespace

std::span<const Global> numpy_globals() { return kNumpy; }

std::string Array::type() const {
  return bytes_ != nullptr || dtype_.empty() ? "a numpy array"
                                             : "a numpy array of dtype '" + dtype_ + "'";
}

Status Array::build(const Value& state) {
  const Items* const items = state.tuple_items();
  const bool right = items != nullptr && items->size() == 5 && (*items)[3].boolean() != nullptr;
  if (!right || bytes_ != nullptr)
    return bad_data("a numpy array's state is not (1, shape, dtype, order, bytes)");
  return fill((*items)[2], (*items)[1], *(*items)[3].boolean(), (*items)[4]);
}

Result<Value> Array::make(const Value& dtype, const Value& shape, bool fortran, const Value& data) {
  const auto array = std::make_shared<Array>();
  LOCKSTEP_TRY(array->fill(dtype, shape, fortran, data));
  return Value(array);
}

Status Array::fill(const Value& dtype, const Value& shape, bool fortran, const Value& data) {
  const auto type = dtype.as<Dtype>();
  if (type == nullptr && dtype.as<Opaque>() == nullptr)
    return bad_data("a numpy array needs a dtype, not " + dtype.type());
  dtype_ = type == nullptr ? dtype.type() : type->code();
  if (type == nullptr || !type->plain()) return {};  // stays a leaf
  const Items* const extents = shape.tuple_items();
  if (extents == nullptr || data.text() == nullptr)
    return bad_data("a numpy array needs a dtype, a shape and bytes");
  std::uint64_t size = type->size();
  std::vector<std::uint64_t> sizes;
  for (const Value& extent : *extents) {
    const std::int64_t* const n = extent.integer();
    if (n == nullptr || *n < 0) return bad_data("a numpy array's shape is not a tuple of sizes");
    sizes.push_back(static_cast<std::uint64_t>(*n));
    if (__builtin_mul_overflow(size, sizes.back(), &size))
      return bad_data("a numpy array above 64 bits");
  }
  if (size != data.text()->size())
    return bad_data("a numpy array of " + std::to_string(size) + " bytes has " +
                    std::to_string(data.text()->size()));
  shape_ = std::move(sizes);
  fortran_ = fortran;
  bytes_ = type->little_endian(data);
  return {};
}

}  // namespace lockstep::pickle
