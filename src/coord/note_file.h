// By which a launcher and a program find out about each other before either starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coord/version.h"

namespace lockstep::coord {

class ElfFile;

// The version in the note of `file`, an ELF file with a note of the same owner and type as `like`.
// None for everything else, and for what cannot be read. Threads: any.
std::optional<std::uint32_t> noted_version(const std::string& file, const Note& like);
std::optional<std::uint32_t> noted_version(const ElfFile& file, const Note& like);

}  // namespace lockstep::coord
