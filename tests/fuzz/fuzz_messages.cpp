// Any bytes as a control message: refused, or a message that says the same again when it is encoded
// and read once more. And any bytes as the rules of --inject.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "coord/faults.h"
#include "coord/messages.h"

using namespace lockstep::coord;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = decode(std::as_bytes(std::span(data, size)));
  if (message.ok()) {
    const auto text = encode(*message);
    if (!text.ok()) std::abort();
    const auto again = decode(std::as_bytes(std::span(*text)));
    if (!again.ok() || !(*again == *message)) std::abort();
  }
  (void)parse_faults(std::string_view(reinterpret_cast<const char*>(data), size)).ok();
  return 0;
}
