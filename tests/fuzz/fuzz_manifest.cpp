// Any bytes as a manifest, and any bytes with the right hash behind them: refused, or exactly what
// we would have written.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/manifest.h"

using namespace lockstep::checkpoint;

namespace {

void check(const std::string& text) {
  const auto manifest = parse_manifest(text);
  if (manifest.ok() && manifest->readable() && to_json(*manifest) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text);
  check(seal(text));
  return 0;
}
