// What an ELF file says of itself: notes, and the shared libraries that it needs. Read by few
// pread()s within bounds; whatever is no ELF file of this machine's kind, or damaged, says nothing.
//
// Source: elf(5), System V gABI chapter 5. Threads: values.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace lockstep::coord {

class ElfFile {
 public:
  // None for everything else than a 64-bit ELF file for this processor.
  static std::optional<ElfFile> open(const std::string& path);

  // What lies in its segments of this type, each of at most `most_bytes`; `align` is the segment's.
  struct Part {
    std::string bytes;
    std::uint64_t align = 0;
  };
  std::vector<Part> parts(std::uint32_t type, std::size_t most_bytes) const;

  struct Needs {
    std::vector<std::string> libraries;  // DT_NEEDED, in their order
    std::string rpath, runpath;          // DT_RPATH, DT_RUNPATH: folders, with ':'
  };
  Needs needs() const;

 private:
  ElfFile(UniqueFd file, std::vector<Elf64_Phdr> segments)
      : file_(std::move(file)), segments_(std::move(segments)) {}
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  std::string text_at(std::uint64_t offset) const;  // up to its zero

  UniqueFd file_;
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace lockstep::coord
