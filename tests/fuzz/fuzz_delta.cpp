// Any bytes as a difference: refused, or a result of the size that is allowed. And of any two byte
// strings the second comes back from the first and their difference.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/delta.h"
#include "require.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t middle = bytes.size() * data[0] / 256;
  const std::string_view from = bytes.substr(0, middle), to = bytes.substr(middle);
  const std::string delta = delta_of(from, to);
  const auto again = apply_delta(from, delta, to.size());
  require(again.ok() && *again == to);
  constexpr std::size_t kMost = 1'000'000;
  const auto any = apply_delta(from, to, kMost);
  require(!any.ok() || any->size() <= kMost);
  return 0;
}
