// Any bytes as an ELF file, and as the dynamic loader's cache.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "coord/note_file.h"
#include "launcher/program/needed_libraries.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"", "libc.so.6"})
    for (const std::string& path : launcher::in_loader_cache(bytes, name))
      if (path.find('\0') != std::string::npos) std::abort();
  static const int file = ::memfd_create("elf", MFD_CLOEXEC);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  (void)coord::noted_version(path, coord::kNote);
  const launcher::LoaderPlaces nowhere{"", "/nonexistent", {}};
  (void)launcher::linked_version(path, nowhere, coord::kNote);
  return 0;
}
