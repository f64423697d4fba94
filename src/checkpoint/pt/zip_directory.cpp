#include "checkpoint/pt/zip_directory.h"

#include <algorithm>
#include <optional>

#include "checkpoint/pt/zip_format.h"
#include "checkpoint/tensor.h"
#include "pickle/input.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Input;

constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxComment = 65535;

Error damaged(const std::string& what) {
  return {ErrorKind::kBadData, "zip: " + what + "; fetch or copy the file again"};
}

Result<std::vector<std::byte>> read_some(ReadableFile& file, std::uint64_t at,
                                         std::uint64_t bytes) {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  LOCKSTEP_TRY(file.read_at(at, out));
  return out;
}

// The last place where an end record, with its comment, ends the file.
std::optional<std::size_t> end_record(std::span<const std::byte> tail) {
  for (std::size_t at = tail.size() - zip::kEndBytes + 1; at-- > 0;) {
    Input in(tail.subspan(at));
    if (in.little<std::uint32_t>() != zip::kEndMark) continue;
    in.take(zip::kEndBytes - 6);
    if (in.little<std::uint16_t>() == in.left()) return at;
  }
  return std::nullopt;
}

Result<Directory> directory64(ReadableFile& file, std::uint64_t end) {
  if (end < zip::kLocator64Bytes) return damaged("the zip64 locator is missing");
  LOCKSTEP_ASSIGN(const auto bytes,
                  read_some(file, end - zip::kLocator64Bytes, zip::kLocator64Bytes));
  Input locator(bytes);
  const bool marked = locator.little<std::uint32_t>() == zip::kLocator64Mark;
  const auto disk = locator.little<std::uint32_t>();
  const auto at = locator.little<std::uint64_t>();
  if (!marked || disk != 0 || at > end || end - at < zip::kEnd64Bytes)
    return damaged("the zip64 locator is missing or wrong");
  LOCKSTEP_ASSIGN(const auto record, read_some(file, at, zip::kEnd64Bytes));
  Input in(record);
  const bool right = in.little<std::uint32_t>() == zip::kEnd64Mark;
  in.take(12);  // its size, versions
  const bool one_disk = in.little<std::uint64_t>() == 0;
  Directory directory;
  const auto here = in.little<std::uint64_t>();
  directory.entries = in.little<std::uint64_t>();
  directory.bytes = in.little<std::uint64_t>();
  directory.begin = in.little<std::uint64_t>();
  if (!right || !one_disk || here != directory.entries)
    return damaged("the zip64 end record is wrong");
  return directory;
}

// Takes those of the three that say "see here", in this order.
Status read_zip64(std::string_view field, std::span<std::uint64_t* const> values) {
  Input in(std::as_bytes(std::span(field)));
  for (std::uint64_t* const value : values)
    if (*value == zip::kIn64) *value = in.little<std::uint64_t>();
  return in.cut() ? Status(damaged("a zip64 field is too short")) : Status();
}

Status read_extra(std::string_view extra, ZipEntry& entry) {
  Input in(std::as_bytes(std::span(extra)));
  while (in.left() >= 4) {
    const auto id = in.little<std::uint16_t>();
    const std::string_view field = in.take(in.little<std::uint16_t>());
    if (in.cut()) break;
    std::uint64_t* const values[] = {&entry.size, &entry.packed, &entry.header};
    if (id == zip::kZip64Extra) return read_zip64(field, values);
  }
  const std::uint64_t in64 = zip::kIn64;
  if (entry.size == in64 || entry.packed == in64 || entry.header == in64)
    return damaged("the zip64 field of " + quote(entry.name) + " is missing");
  return {};
}

Status check_method(const ZipEntry& entry) {
  const bool known = entry.method == zip::kStored || entry.method == zip::kDeflated;
  if (!known || (entry.flags & zip::kEncrypted) != 0)
    return Error{ErrorKind::kBadData, "zip: " + quote(entry.name) +
                                          " is encrypted or packed by a method other than deflate; "
                                          "pack it again, stored"};
  if (entry.method == zip::kStored && entry.packed != entry.size)
    return damaged(quote(entry.name) + " is stored, but has two sizes");
  return {};
}

// In this order in the directory's entries and in local headers.
Fields read_fields(Input& in) {
  Fields fields;
  in.take(2);  // version needed
  fields.flags = in.little<std::uint16_t>();
  fields.method = in.little<std::uint16_t>();
  in.take(4);  // time and date
  fields.crc = in.little<std::uint32_t>();
  fields.packed = in.little<std::uint32_t>();
  fields.size = in.little<std::uint32_t>();
  fields.name_bytes = in.little<std::uint16_t>();
  fields.extra_bytes = in.little<std::uint16_t>();
  return fields;
}

Result<ZipEntry> parse_entry(Input& in) {
  ZipEntry entry;
  if (in.little<std::uint32_t>() != zip::kCentralMark) return damaged("the directory is wrong");
  in.take(2);  // version of the writer
  const Fields fields = read_fields(in);
  entry.flags = fields.flags;
  entry.method = fields.method;
  entry.crc = fields.crc;
  entry.packed = fields.packed;
  entry.size = fields.size;
  const auto comment_bytes = in.little<std::uint16_t>();
  const auto disk = in.little<std::uint16_t>();
  in.take(6);  // attributes
  entry.header = in.little<std::uint32_t>();
  entry.name = in.take(fields.name_bytes);
  const std::string_view extra = in.take(fields.extra_bytes);
  in.take(comment_bytes);
  if (in.cut() || disk != 0) return damaged("the directory is wrong");
  LOCKSTEP_TRY(read_extra(extra, entry));
  LOCKSTEP_TRY(check_method(entry));
  return entry;
}

}  // namespace

Result<Directory> find_directory(ReadableFile& file) {
  const std::uint64_t tail_bytes =
      std::min<std::uint64_t>(file.size(), zip::kEndBytes + kMaxComment);
  if (tail_bytes < zip::kEndBytes) return damaged("the file is cut short");
  LOCKSTEP_ASSIGN(const auto tail, read_some(file, file.size() - tail_bytes, tail_bytes));
  const auto found = end_record(tail);
  if (!found)
    return damaged("there is no end record: the file is cut short, or has something behind it");
  Input in{std::span<const std::byte>(tail).subspan(*found + 4)};
  const auto disks = in.little<std::uint32_t>();
  const auto here = in.little<std::uint16_t>();
  Directory directory;
  directory.entries = in.little<std::uint16_t>();
  directory.bytes = in.little<std::uint32_t>();
  directory.begin = in.little<std::uint32_t>();
  const std::uint64_t end = file.size() - tail_bytes + *found;
  if (disks != 0 || here != directory.entries) return damaged("it is one of several disks");
  if (directory.entries == 0xffff || directory.bytes == zip::kIn64 ||
      directory.begin == zip::kIn64) {
    LOCKSTEP_ASSIGN(directory, directory64(file, end));
  }
  if (directory.begin > end || directory.bytes > end - directory.begin)
    return damaged("the directory lies outside of the file");
  if (directory.bytes > kMaxDirectoryBytes)
    return damaged("a directory of " + std::to_string(directory.bytes) + " bytes; at most " +
                   std::to_string(kMaxDirectoryBytes) + " are read");
  return directory;
}

Result<std::vector<ZipEntry>> parse_directory(ReadableFile& file, const Directory& directory) {
  LOCKSTEP_ASSIGN(const auto bytes, read_some(file, directory.begin, directory.bytes));
  std::vector<ZipEntry> entries;
  Input in(bytes);
  while (in.left() > 0) {
    LOCKSTEP_ASSIGN(entries.emplace_back(), parse_entry(in));
  }
  if (entries.size() != directory.entries)
    return damaged("the directory has " + std::to_string(entries.size()) + " entries and says " +
                   std::to_string(directory.entries));
  return entries;
}

LocalHeader parse_local(std::span<const std::byte> bytes) {
  Input in(bytes);
  const auto mark = in.little<std::uint32_t>();
  return {mark, read_fields(in)};
}

}  // namespace lockstep::checkpoint::pt
