#include "data/vision/python_sequences.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/errors.h"

namespace lockstep::data {
namespace {

using pickle::Value;
using Arguments = std::span<const Value>;

constexpr std::int64_t kMostItems = 1'000'000;

// (start, stop, step)
Result<Value> range(Arguments arguments) {
  std::array<std::int64_t, 3> numbers{};
  if (arguments.size() != numbers.size()) return bad_data("range takes (start, stop, step)");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t* const number = arguments[i].integer();
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (number == nullptr || *number > kMost || *number < -kMost)
      return bad_data("range takes three ints");
    numbers[i] = *number;
  }
  const auto [start, stop, step] = numbers;
  if (step == 0) return bad_data("a range's step is 0");
  pickle::Items items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop; at += step) {
    if (std::ssize(items) == kMostItems)
      return bad_data("a range of more than " + std::to_string(kMostItems) + " numbers");
    items.emplace_back(at);
  }
  return Value::list(std::move(items));
}

// (list, ...): of an array its type's letter comes first.
Result<Value> list_of(Arguments arguments, std::size_t at) {
  if (arguments.size() <= at) return Value::list();
  const pickle::Items* const items = arguments[at].list_items();
  if (items == nullptr) return bad_data("takes a list");
  return Value::list(*items);
}
Result<Value> deque(Arguments arguments) { return list_of(arguments, 0); }
Result<Value> array(Arguments arguments) { return list_of(arguments, 1); }

// (array.array, letter, format, bytes). Formats 0 to 13: unsigned, signed of 1 byte, then of 2, 4
// and 8 bytes unsigned and signed, each little-endian and big-endian.
Result<Value> array_of_bytes(Arguments arguments) {
  const std::int64_t* const format = arguments.size() == 4 ? arguments[2].integer() : nullptr;
  const std::string* const bytes = format == nullptr ? nullptr : arguments[3].bytes();
  if (bytes == nullptr || *format < 0 || *format > 13)
    return bad_data("an array that is not of whole numbers");
  const bool one = *format < 2;
  const std::size_t width = one ? 1 : std::size_t{2} << (*format - 2) / 4;
  const bool is_signed = one ? *format == 1 : (*format - 2) % 4 >= 2;
  const bool big_endian = !one && *format % 2 == 1;
  pickle::Items items;
  for (std::size_t at = 0; at + width <= bytes->size(); at += width) {
    std::string number = bytes->substr(at, width);
    if (big_endian) std::ranges::reverse(number);
    std::uint64_t bits = 0;
    std::memcpy(&bits, number.data(), width);
    const auto unused = static_cast<int>(64 - 8 * width);
    items.emplace_back(is_signed ? static_cast<std::int64_t>(bits << unused) >> unused
                                 : static_cast<std::int64_t>(bits));
  }
  return Value::list(std::move(items));
}

constexpr std::array<pickle::Global, 6> kSequences{{{"builtins.range", range},
                                                    {"__builtin__.xrange", range},
                                                    {"collections.deque", deque},
                                                    {"array.array", array},
                                                    {"array._array_reconstructor", array_of_bytes},
                                                    {"__builtin__.range", range}}};

}  // namespace

std::span<const pickle::Global> sequence_globals() { return kSequences; }

}  // namespace lockstep::data
