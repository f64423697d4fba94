// What the kernel says of a mapping of this process.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::test {

// VmFlags of the mapping with this address (man 5 proc_pid_smaps), each with a space on both sides;
// empty: there is none.
inline std::string memory_flags(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> first >> dash >> end && dash == '-') {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      inside = first <= at && at < end;
    } else if (inside && line.starts_with("VmFlags: ")) {
      return line.substr(8) + " ";
    }
  }
  return "";
}

// No core dump of this process has what is there.
inline bool is_kept_from_core_dumps(const void* address) {
  return memory_flags(address).find(" dd ") != std::string::npos;
}

}  // namespace lockstep::test
