// Where a zip's entries are: its end, its directory, its local headers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/pt/zip_reader.h"

namespace lockstep::checkpoint::pt {

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

Result<Directory> find_directory(ReadableFile& file);
// Entries without the place of their data.
Result<std::vector<ZipEntry>> parse_directory(ReadableFile& file, const Directory& directory);

// What an entry's local header says as the directory does.
struct Fields {
  std::uint32_t crc = 0, packed = 0, size = 0;
  std::uint16_t flags = 0, method = 0, name_bytes = 0, extra_bytes = 0;
};
struct LocalHeader {
  std::uint32_t mark = 0;
  Fields fields;
};
LocalHeader parse_local(std::span<const std::byte> bytes);

}  // namespace lockstep::checkpoint::pt
