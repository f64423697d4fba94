// The shared libraries that a program needs, found where the dynamic loader would find them: by its
// RPATH or RUNPATH, by LD_LIBRARY_PATH, in the loader's cache and in the system's folders.
//
// Source: ld.so(8) and glibc's elf/dl-load.c, elf/cache.c. Left out: glibc-hwcaps, LD_PRELOAD and
// what a program opens itself (dlopen). Threads: any, while nobody changes the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coord/elf_file.h"
#include "coord/version.h"

namespace lockstep::launcher {

// Where the system's libraries are looked for.
struct LoaderPlaces {
  std::string library_path;  // LD_LIBRARY_PATH
  std::string cache = "/etc/ld.so.cache";
  std::vector<std::string> folders;

  static LoaderPlaces of_this_process();
};

// Visits the file and what it needs, each once and in the loader's order, until `enough` is true.
// At most 1024 files.
void visit_needed(const std::string& file, const LoaderPlaces& places,
                  const std::function<bool(const coord::ElfFile&)>& enough);

// The version in the first note of that kind, of the program or a library that it needs.
std::optional<std::uint32_t> linked_version(const std::string& file, const LoaderPlaces& places,
                                            const coord::Note& like);

// Paths of the library `name` in the bytes of a cache file, in its order.
std::vector<std::string> in_loader_cache(std::string_view bytes, std::string_view name);

}  // namespace lockstep::launcher
