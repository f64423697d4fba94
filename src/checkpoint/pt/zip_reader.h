// A zip archive in a file, as torch.save and zip tools write them: stored or deflated, zip64, data
// descriptors. Every byte that is read is checked against its CRC-32.
//
// Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 (layout) and 4.5.3 (zip64). Names are compared
// and never used as paths. Refused: encryption, several disks, entries that overlap or lie outside
// of the file, local headers that disagree with the directory, names that are there twice.
// Errors: kBadData. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"

namespace lockstep::checkpoint::pt {

struct ZipEntry {
  std::string name;
  std::uint64_t header = 0;  // where its local header is
  std::uint64_t data = 0;    // and its data
  std::uint64_t packed = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes unpacked
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
};

class ZipReader {
 public:
  // `inflated_limit`: bytes that deflated entries may give in all.
  static Result<ZipReader> open(ReadableFile& file, std::uint64_t inflated_limit);
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;
  // `out` has the entry's size.
  Status read(const ZipEntry& entry, std::span<std::byte> out);
  // A small one as text; kBadData above the limit.
  Result<std::string> read_text(const ZipEntry& entry, std::uint64_t limit);

 private:
  explicit ZipReader(ReadableFile& file) : file_(&file) {}
  Status read_directory();
  Status locate(ZipEntry& entry);
  Status check_overlaps(std::uint64_t directory) const;
  Status check_inflation(std::uint64_t limit) const;
  Status read_stored(const ZipEntry& entry, std::span<std::byte> out);
  Status read_deflated(const ZipEntry& entry, std::span<std::byte> out);

  ReadableFile* file_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

}  // namespace lockstep::checkpoint::pt
