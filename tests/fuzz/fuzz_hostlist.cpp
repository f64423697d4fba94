// Any text as Slurm's list of nodes: refused, or as many names as may be, none of them too long.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "launcher/options/hostlist.h"

using namespace lockstep::launcher;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLimit = 1000;
  const auto names =
      expand_hostlist(std::string_view(reinterpret_cast<const char*>(data), size), kLimit);
  if (!names.ok()) return 0;
  if (names->empty() || names->size() > kLimit) std::abort();
  for (const std::string& name : *names)
    if (name.empty() || name.size() > kMostNameBytes) std::abort();
  return 0;
}
