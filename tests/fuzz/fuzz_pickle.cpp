// Any bytes as a pickle: refused, or a value that is written and read again as itself.
#include <cstdint>
#include <cstdlib>

#include "pickle/reader.h"
#include "pickle/writer.h"

using namespace lockstep::pickle;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void check(const Value& value, const Options& options) {
  const auto written = write(value);
  if (!written.ok()) return;  // a numpy array, or a name such as numpy.ndarray
  const auto again = read(bytes_of(*written), options);
  if (!again.ok() || again->bytes != written->size()) std::abort();
  const auto twice = write(again->root);
  if (!twice.ok() || *twice != *written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Table kTable = table_of({plain_globals(), numpy_globals()});
  Options options{kTable, {}, "", {}};
  options.limits.values = 20000;
  options.limits.expanded = 100000;
  const auto document = read({reinterpret_cast<const std::byte*>(data), size}, options);
  if (!document.ok()) return 0;
  if (document->bytes > size) std::abort();
  options.limits.values = 1000000;  // what was shared is written out
  check(document->root, options);
  return 0;
}
