#include "checkpoint/pt/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "checkpoint/pt/zip_directory.h"
#include "checkpoint/pt/zip_format.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint::pt {
namespace {

// Small enough to be summed while it is still in the cache.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

Error bad_entry(const std::string& what) {
  return {ErrorKind::kBadData, what + "; fetch or copy the file again"};
}

std::uint32_t add_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

class Inflater {
 public:
  Inflater() : ok_(inflateInit2(&stream_, -MAX_WBITS) == Z_OK) {}
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Z_STREAM_END at the stream's end, Z_OK or Z_BUF_ERROR when it needs more of one of the two.
  int step(std::span<std::byte>& in, std::span<std::byte>& out) {
    if (!ok_) return Z_MEM_ERROR;
    const auto give = static_cast<uInt>(in.size());
    const auto room = static_cast<uInt>(std::min(out.size(), kPieceBytes));
    Bytef none = 0;  // zlib wants a place even for nothing
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = give;
    stream_.next_out = room == 0 ? &none : reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(give - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    return code;
  }

 private:
  z_stream stream_{};
  bool ok_;
};

}  // namespace

Result<ZipReader> ZipReader::open(ReadableFile& file, std::uint64_t inflated_limit) {
  ZipReader reader(file);
  LOCKSTEP_TRY(reader.read_directory());
  LOCKSTEP_TRY(reader.check_inflation(inflated_limit));
  return reader;
}

Status ZipReader::read_directory() {
  LOCKSTEP_ASSIGN(const Directory directory, find_directory(*file_));
  LOCKSTEP_ASSIGN(entries_, parse_directory(*file_, directory));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    LOCKSTEP_TRY(locate(entries_[i]));
    if (!names_.emplace(entries_[i].name, i).second)
      return bad_entry("zip: " + quote(entries_[i].name) + " is there twice");
  }
  return check_overlaps(directory.begin);
}

Status ZipReader::locate(ZipEntry& entry) {
  const auto differs = [&] {
    return bad_entry("zip: the header of " + quote(entry.name) + " at byte " +
                     std::to_string(entry.header) + " is not what the directory says");
  };
  std::array<std::byte, zip::kLocalBytes> bytes{};
  if (entry.header > file_->size() || file_->size() - entry.header < bytes.size()) return differs();
  LOCKSTEP_TRY(file_->read_at(entry.header, bytes));
  const auto& [mark, local] = parse_local(bytes);
  std::string name(local.name_bytes, '\0');
  entry.data = entry.header + bytes.size() + local.name_bytes + local.extra_bytes;
  if (mark != zip::kLocalMark || entry.data > file_->size() ||
      file_->size() - entry.data < entry.packed || name.size() != entry.name.size())
    return differs();
  LOCKSTEP_TRY(
      file_->read_at(entry.header + bytes.size(), std::as_writable_bytes(std::span(name))));
  const bool late = (local.flags & zip::kDescriptor) != 0;
  const bool equal =
      name == entry.name && local.method == entry.method && local.flags == entry.flags;
  const bool sizes =
      late || ((local.packed == zip::kIn64 || local.packed == entry.packed) &&
               (local.size == zip::kIn64 || local.size == entry.size) && local.crc == entry.crc);
  return equal && sizes ? Status() : differs();
}

// So that nobody asks for memory that no data will fill.
Status ZipReader::check_inflation(std::uint64_t limit) const {
  constexpr std::uint64_t kMaxInflation = 1032;  // zlib's own bound
  std::uint64_t all = 0;
  for (const ZipEntry& entry : entries_) {
    if (entry.method == zip::kStored) continue;
    if (entry.size / kMaxInflation > entry.packed)
      return bad_entry("zip: " + quote(entry.name) + " says it unpacks to " +
                       std::to_string(entry.size) + " bytes, more than deflate can");
    if (__builtin_add_overflow(all, entry.size, &all) || all > limit)
      return Error{ErrorKind::kBadData, "zip: its deflated entries unpack to more than the " +
                                            std::to_string(limit) +
                                            " bytes that are read; pack it again, stored"};
  }
  return {};
}

Status ZipReader::check_overlaps(std::uint64_t directory) const {
  std::vector<const ZipEntry*> order;
  for (const ZipEntry& entry : entries_) order.push_back(&entry);
  std::ranges::sort(order, {}, &ZipEntry::header);
  std::uint64_t end = 0;
  for (const ZipEntry* const entry : order) {
    if (entry->header < end)
      return bad_entry("zip: " + quote(entry->name) + " overlaps another entry");
    end = entry->data + entry->packed;
  }
  return end <= directory ? Status() : bad_entry("zip: the last entry overlaps the directory");
}

const ZipEntry* ZipReader::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &entries_[found->second];
}

Status ZipReader::read(const ZipEntry& entry, std::span<std::byte> out) {
  if (entry.method == zip::kStored) return read_stored(entry, out);
  return read_deflated(entry, out);
}

Status ZipReader::read_stored(const ZipEntry& entry, std::span<std::byte> out) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < out.size(); at += kPieceBytes) {
    const auto piece = out.subspan(at, std::min(kPieceBytes, out.size() - at));
    LOCKSTEP_TRY(file_->read_at(entry.data + at, piece));
    crc = add_crc(crc, piece);
  }
  return crc == entry.crc ? Status()
                          : bad_entry("zip: " + quote(entry.name) + " does not have its CRC-32");
}

Status ZipReader::read_deflated(const ZipEntry& entry, std::span<std::byte> out) {
  Inflater inflater;
  std::vector<std::byte> buffer(kPieceBytes);
  std::span<std::byte> left = out;
  std::span<std::byte> in;
  std::uint64_t at = 0;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    if (in.empty() && at < entry.packed) {
      in = std::span(buffer).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, entry.packed - at)));
      LOCKSTEP_TRY(file_->read_at(entry.data + at, in));
      at += in.size();
    }
    const std::size_t before = in.size() + left.size();
    code = inflater.step(in, left);
    const bool stuck = in.size() + left.size() == before && code != Z_STREAM_END;
    if (stuck || (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)) break;
  }
  if (code != Z_STREAM_END || !left.empty() || !in.empty() || at != entry.packed ||
      add_crc(0, out) != entry.crc)
    return bad_entry("zip: " + quote(entry.name) + " does not unpack to its size and CRC-32");
  return {};
}

Result<std::string> ZipReader::read_text(const ZipEntry& entry, std::uint64_t limit) {
  if (entry.size > limit)
    return Error{ErrorKind::kBadData, quote(entry.name) + " has " + std::to_string(entry.size) +
                                          " bytes; at most " + std::to_string(limit) + " are read"};
  std::string text(static_cast<std::size_t>(entry.size), '\0');
  LOCKSTEP_TRY(read(entry, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace lockstep::checkpoint::pt
