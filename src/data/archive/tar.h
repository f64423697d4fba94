// Tar archives (POSIX.1-2001 ustar and pax, GNU's long names and sparse files), as a list of
// folders, files and hard links: one pass, nothing is held in memory but one block and, of a sparse
// file, its map.
//
// Nothing can name a place outside: absolute paths and ".." are refused, and so are symbolic links,
// devices and all else. Errors: kBadData with the entry's name; those of
// source and sink. Threads: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/archive/source.h"
#include "lockstep/status.h"

namespace lockstep::data {

struct TarLimits {
  std::uint64_t entries = 20'000'000;
  std::uint64_t bytes = std::uint64_t{4} << 40;     // of all files, holes in them too
  std::size_t path_bytes = 4000, name_bytes = 255;  // the latter: of each folder and file in it
  std::size_t depth = 64;
};

// Gets each entry in the archive's order. Paths are relative, as "a/b", their parts neither empty,
// "." nor ".."; a file's content comes behind it, in pieces of `size` bytes in all.
class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Status folder(const std::string& path) = 0;
  virtual Status file(const std::string& path, std::uint64_t size) = 0;
  virtual Status content(std::span<const std::byte> piece) = 0;
  // Another name of `target`, which must be a file that came before; kBadData if it did not.
  virtual Status link(const std::string& path, const std::string& target) = 0;
};

Status read_tar(const Source& source, const TarLimits& limits, TarSink& sink);

}  // namespace lockstep::data
