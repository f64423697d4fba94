// Any bytes as what the keepers of several hosts say to each other: refused, or a word that says
// the same when it is written again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coord/keeper_wire.h"
#include "require.h"

using namespace lockstep::coord;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto same = [&](const auto& word) {
    if (word.ok()) require(encode(*word) == bytes);
  };
  if (data[0] % 3 == 0) same(decode_host_word(bytes));
  if (data[0] % 3 == 1) same(decode_run_word(bytes));
  if (data[0] % 3 == 2) same(decode_run_state(bytes));
  return 0;
}
