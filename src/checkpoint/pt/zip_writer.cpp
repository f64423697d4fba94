#include "checkpoint/pt/zip_writer.h"

#include <zlib.h>

#include <algorithm>

#include "base/hash.h"
#include "checkpoint/pt/zip_format.h"

namespace lockstep::checkpoint::pt {
namespace {

constexpr std::uint16_t kVersion = 45;      // zip64 may be there
constexpr std::uint16_t kFirstDate = 0x21;  // 1 January 1980
constexpr std::uint16_t kPadding = 0x4246;  // "FB"
constexpr std::size_t kExtraBytes = 4;      // of a field's id and size

class Record {
 public:
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  Record& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    return *this;
  }
  std::string bytes_;
};

// What both headers have between the version and the extra fields.
void common(Record& out, std::uint32_t crc, std::uint64_t size, std::size_t name_bytes,
            std::size_t extra_bytes) {
  out.u16(zip::kUtf8).u16(zip::kStored).u16(0).u16(kFirstDate).u32(crc);
  out.u32(size).u32(size).u16(name_bytes).u16(extra_bytes);
}

}  // namespace

std::string ZipWriter::local_header(const Entry& entry) const {
  Record extra;
  const bool large = entry.size >= zip64_from_;
  if (large) extra.u16(zip::kZip64Extra).u16(16).u64(entry.size).u64(entry.size);
  std::string fields = extra.take();
  const std::uint64_t unpadded =
      at_ + zip::kLocalBytes + entry.name.size() + fields.size() + kExtraBytes;
  const std::uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  Record pad;
  fields += pad.u16(kPadding).u16(padding).text(std::string(padding, 'Z')).take();
  Record out;
  out.u32(zip::kLocalMark).u16(kVersion);
  common(out, entry.crc, large ? zip::kIn64 : entry.size, entry.name.size(), fields.size());
  return out.text(entry.name).text(fields).take();
}

std::string ZipWriter::central_header(const Entry& entry) const {
  const bool large = entry.size >= zip64_from_;
  const bool far = entry.header >= zip64_from_;
  Record extra;
  if (large) extra.u64(entry.size).u64(entry.size);
  if (far) extra.u64(entry.header);
  std::string fields = extra.take();
  if (!fields.empty()) {
    Record head;
    fields = head.u16(zip::kZip64Extra).u16(fields.size()).text(fields).take();
  }
  Record out;
  out.u32(zip::kCentralMark).u16(kVersion).u16(kVersion);
  common(out, entry.crc, large ? zip::kIn64 : entry.size, entry.name.size(), fields.size());
  out.u16(0).u16(0).u16(0).u32(0);  // comment, disk, attributes
  return out.u32(far ? zip::kIn64 : entry.header).text(entry.name).text(fields).take();
}

std::string ZipWriter::end_records(std::uint64_t directory, std::uint64_t bytes) const {
  const std::uint64_t count = entries_.size();
  const bool large = count >= 0xffff || directory >= zip64_from_ || bytes >= zip64_from_;
  Record out;
  if (large) {
    out.u32(zip::kEnd64Mark).u64(zip::kEnd64Bytes - 12).u16(kVersion).u16(kVersion).u32(0).u32(0);
    out.u64(count).u64(count).u64(bytes).u64(directory);
    out.u32(zip::kLocator64Mark).u32(0).u64(directory + bytes).u32(1);
  }
  out.u32(zip::kEndMark).u16(0).u16(0);
  out.u16(large ? 0xffff : count).u16(large ? 0xffff : count);
  return out.u32(large ? zip::kIn64 : bytes).u32(large ? zip::kIn64 : directory).u16(0).take();
}

Status ZipWriter::append(std::span<const std::byte> bytes) {
  at_ += bytes.size();
  return file_.append(bytes);
}

Status ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(data.data()), data.size()));
  entries_.push_back({name, at_, data.size(), data.empty() ? 0 : crc});
  const std::string header = local_header(entries_.back());
  LOCKSTEP_TRY(append(std::as_bytes(std::span(header))));
  return append(data);
}

Status ZipWriter::finish() {
  const std::uint64_t directory = at_;
  std::string bytes;
  for (const Entry& entry : entries_) bytes += central_header(entry);
  bytes += end_records(directory, bytes.size());
  return append(std::as_bytes(std::span(bytes)));
}

std::uint64_t ZipWriter::names_hash() const {
  Xxh3 hash;
  for (const Entry& entry : entries_) hash.update(entry.name + "\n");
  return hash.value();
}

std::uint64_t ZipWriter::content_hash() const {
  Xxh3 hash;
  for (const Entry& entry : entries_) hash.update(std::as_bytes(std::span(&entry.crc, 1)));
  return hash.value();
}

}  // namespace lockstep::checkpoint::pt
