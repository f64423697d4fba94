#include "pickle/reader.h"

#include <array>
#include <cmath>

#include "base/errors.h"
#include "base/text.h"
#include "pickle/machine.h"

namespace lockstep::pickle {
namespace {

// Python 3 gives the class alone; Python 2 a list of [key, value].
Result<Value> ordered_dict(std::span<const Value> arguments) {
  Value dict = Value::ordered_dict();
  if (arguments.empty()) return dict;
  const Sequence* const items = arguments.size() == 1 ? arguments[0].sequence() : nullptr;
  if (items == nullptr) return bad_data("takes at most a list of pairs");
  for (const Value& item : items->items) {
    const Sequence* const pair = item.sequence();
    if (pair == nullptr || pair->items.size() != 2) return bad_data("an item is not a pair");
    dict.set(pair->items[0], pair->items[1]);
  }
  return dict;
}

// How protocol 2 holds bytes: str of the first 256 code points.
Result<Value> encode(std::span<const Value> arguments) {
  const bool latin = arguments.size() == 2 && arguments[0].str() != nullptr &&
                     arguments[1].text() != nullptr &&
                     (*arguments[1].text() == "latin1" || *arguments[1].text() == "latin-1");
  if (!latin) return bad_data("only (str, 'latin1') is read");
  std::string bytes;
  const std::string& text = *arguments[0].str();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead > 0xc3) return bad_data("a code point above 255");
    if (lead < 0x80)
      bytes.push_back(text[i]);
    else
      bytes.push_back(
          static_cast<char>(lead << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f)));
  }
  return Value::bytes(std::move(bytes));
}

// bytes() and bytearray(bytes), as protocols 2 to 4 write them.
Result<Value> bytes_of(std::span<const Value> arguments) {
  if (arguments.empty()) return Value::bytes("");
  if (arguments.size() == 1 && arguments[0].bytes() != nullptr) return arguments[0];
  if (arguments.size() == 2) return encode(arguments);  // bytearray(u'...', 'latin-1') of Python 2
  return bad_data("takes bytes");
}

Result<Value> counter(std::span<const Value> arguments) {
  if (arguments.empty()) return Value::dict();
  const Dict* const counts = arguments.size() == 1 ? arguments[0].dict_value() : nullptr;
  if (counts == nullptr) return bad_data("takes a dict");
  return Value::dict(counts->pairs);
}

// (what makes a missing value), then SETITEMS.
Result<Value> default_dict(std::span<const Value> arguments) {
  if (arguments.size() > 1) return bad_data("takes at most a factory");
  return Value::dict();
}

template <bool kFrozen>
Result<Value> set_of(std::span<const Value> arguments) {
  if (arguments.empty()) return Value::set({}, kFrozen);
  const Sequence* const items = arguments.size() == 1 ? arguments[0].sequence() : nullptr;
  if (items == nullptr) return bad_data("takes a list");
  return Value::set(items->items, kFrozen);
}

Result<Value> complex_number(std::span<const Value> arguments) {
  if (arguments.size() != 2 || arguments[0].number() == nullptr || arguments[1].number() == nullptr)
    return bad_data("takes two floats");
  const double imaginary = *arguments[1].number();
  return Value::opaque("the complex number " + shortest(*arguments[0].number()) +
                       (std::signbit(imaginary) ? "-" : "+") + shortest(std::fabs(imaginary)) +
                       "j");
}

constexpr std::array kPlain{Global{"collections.OrderedDict", ordered_dict, true},
                            Global{"collections.defaultdict", default_dict, true},
                            Global{"collections.Counter", counter, true},
                            Global{"_codecs.encode", encode},
                            Global{"builtins.bytes", bytes_of},
                            Global{"builtins.bytearray", bytes_of},
                            Global{"builtins.set", set_of<false>, true},
                            Global{"builtins.frozenset", set_of<true>, true},
                            Global{"builtins.complex", complex_number},
                            Global{"__builtin__.bytes", bytes_of},
                            Global{"__builtin__.bytearray", bytes_of},
                            Global{"__builtin__.set", set_of<false>, true},
                            Global{"__builtin__.frozenset", set_of<true>, true},
                            Global{"__builtin__.complex", complex_number}};

}  // namespace

std::span<const Global> plain_globals() { return kPlain; }

Table table_of(std::initializer_list<std::span<const Global>> parts) {
  Table table;
  for (const auto& part : parts)
    for (const Global& global : part) table.push_back(&global);
  return table;
}

Result<Document> read(std::span<const std::byte> input, const Options& options) {
  return Machine(input, options).run();
}

}  // namespace lockstep::pickle
