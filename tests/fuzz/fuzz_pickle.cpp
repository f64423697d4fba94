// Any bytes as a pickle: refused, or a tree within its limits, without pieces, that is written and
// read again as itself.
#include <cstdint>
#include <cstdlib>

#include "pickle/reader.h"
#include "pickle/writer.h"
#include "require.h"

using namespace lockstep::pickle;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A loop would not end, and what is not complete is a leaf by now.
void walk(const Value& value, std::size_t depth, std::size_t& left) {
  require(left-- > 0);
  if (const Object* const object = value.object()) require(object->complete());
  const auto all = [&](const Items& items) {
    require(depth > 0);
    for (const Value& item : items) walk(item, depth - 1, left);
  };
  if (const auto* const sequence = value.sequence()) all(sequence->items);
  if (const auto* const set = value.set_value()) all(set->items);
  const auto* const dict = value.dict_value();
  if (dict == nullptr) return;
  require(depth > 0);
  for (const auto& [key, item] : dict->pairs) {
    walk(key, depth - 1, left);
    walk(item, depth - 1, left);
  }
  walk(dict->attributes, depth - 1, left);
}

void check(const Value& value, const Options& options) {
  const auto written = write(value);
  if (!written.ok()) return;  // a numpy array, or a leaf
  const auto again = read(bytes_of(*written), options);
  if (!again.ok() || again->bytes != written->size()) std::abort();
  const auto twice = write(again->root);
  if (!twice.ok() || *twice != *written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Table kTable = table_of({plain_globals(), numpy_globals()});
  Options options{kTable, {}, "", {}, "__torch__."};
  options.limits.values = 20000;
  options.limits.expanded = 100000;
  const auto document = read({reinterpret_cast<const std::byte*>(data), size}, options);
  if (!document.ok()) return 0;
  if (document->bytes > size) std::abort();
  std::size_t left = options.limits.expanded;
  walk(document->root, options.limits.depth, left);
  options.limits.values = 1000000;  // what was shared is written out
  check(document->root, options);
  return 0;
}
