#include "pickle/reader.h"

#include <array>

#include "base/errors.h"
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
                     arguments[1].text() != nullptr && *arguments[1].text() == "latin1";
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

Result<Value> no_bytes(std::span<const Value> arguments) {
  if (!arguments.empty()) return bad_data("only empty bytes are read from it");
  return Value::bytes("");
}

constexpr std::array<Global, 4> kPlain{{{"collections.OrderedDict", ordered_dict, true},
                                        {"_codecs.encode", encode},
                                        {"__builtin__.bytes", no_bytes},
                                        {"builtins.bytes", no_bytes}}};

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
