#include "data/archive/tar.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMaxHeaderBytes = 1 << 20;  // of a pax header or a long name
constexpr std::size_t kPieceBytes = 1 << 18;        // a multiple of kBlock

using Block = std::array<char, kBlock>;

std::string_view field(const Block& block, std::size_t at, std::size_t bytes) {
  const std::string_view whole(block.data() + at, bytes);
  return whole.substr(0, whole.find('\0'));
}

// Octal with blanks around it, or (GNU) a number in base 256.
std::optional<std::uint64_t> number(const Block& block, std::size_t at, std::size_t bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(block[at + i]); };
  std::uint64_t value = 0;
  if (byte(0) == 0x80) {
    for (std::size_t i = 1; i < bytes; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | byte(i);
    }
    return value;
  }
  std::string_view text = field(block, at, bytes);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (const char c : text) {
    if (c < '0' || c > '7' || value >> 60 != 0) return std::nullopt;
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

constexpr std::size_t kSumAt = 148, kSumBytes = 8;

// The sum of all bytes, its own field taken for blanks.
bool sum_fits(const Block& block) {
  std::uint64_t sum = kSumBytes * ' ';
  for (std::size_t i = 0; i < kBlock; ++i)
    if (i < kSumAt || i >= kSumAt + kSumBytes) sum += static_cast<unsigned char>(block[i]);
  return number(block, kSumAt, kSumBytes) == sum;
}

std::string name_in(const Block& block) {
  const bool posix = std::string_view(block.data() + 257, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = posix ? field(block, 345, 155) : std::string_view();
  return (prefix.empty() ? "" : std::string(prefix) + "/") + std::string(field(block, 0, 100));
}

// "a/b" of "./a//b/"; kBadData for what is not below where it is unpacked.
Result<std::string> safe_path(const std::string& name, const TarLimits& limits) {
  const auto refused = [&](const std::string& why) {
    return bad_data("the archive's entry '" + name.substr(0, 200) + "' " + why +
                    ": nothing of the archive is used");
  };
  if (name.starts_with('/')) return refused("has an absolute path");
  if (name.find('\0') != std::string::npos) return refused("has a zero byte in its name");
  if (name.size() > limits.path_bytes)
    return refused("has a name of " + std::to_string(name.size()) + " bytes, limit " +
                   std::to_string(limits.path_bytes));
  std::string path;
  std::size_t depth = 0;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    at = end + 1;
    if (part == "..") return refused("climbs out of its folder");
    if (part.empty() || part == ".") continue;
    if (part.size() > limits.name_bytes)
      return refused("has a name of " + std::to_string(part.size()) + " bytes in it, limit " +
                     std::to_string(limits.name_bytes));
    if (++depth > limits.depth)
      return refused("is more than " + std::to_string(limits.depth) + " folders deep");
    path += (path.empty() ? "" : "/") + part;
  }
  return path;
}

class Reader {
 public:
  Reader(const Source& source, const TarLimits& limits, TarSink& sink)
      : source_(source), limits_(limits), sink_(sink), piece_(kPieceBytes) {}

  Status read_all() {
    for (std::uint64_t entries = 0;; ++entries) {
      Block block;
      LOCKSTEP_TRY(fill(std::as_writable_bytes(std::span(block))));
      if (std::ranges::all_of(block, [](char c) { return c == 0; })) return read_rest();
      if (!sum_fits(block))
        return bad_data("it is no tar archive, or damaged: a header's sum is wrong");
      if (entries == limits_.entries)
        return bad_data("the archive has more than " + std::to_string(limits_.entries) +
                        " entries");
      LOCKSTEP_TRY(read_entry(block));
    }
  }

 private:
  Status fill(std::span<std::byte> out) {
    LOCKSTEP_ASSIGN(const std::size_t bytes, source_(out));
    return bytes == out.size() ? Status() : bad_data("the archive is cut off");
  }

  // So that the end of what it was packed with is checked, too.
  Status read_rest() {
    for (;;) {
      LOCKSTEP_ASSIGN(const std::size_t bytes, source_(piece_));
      if (bytes == 0) return {};
      LOCKSTEP_TRY(count(bytes));
    }
  }

  Status count(std::uint64_t bytes) {
    if (bytes > limits_.bytes - bytes_)
      return bad_data("the archive holds more than " + std::to_string(limits_.bytes) + " bytes");
    bytes_ += bytes;
    return {};
  }

  Status read_entry(const Block& block) {
    const std::optional<std::uint64_t> size = number(block, 124, 12);
    if (!size) return bad_data("'" + name_in(block) + "' in the archive has no size");
    const char type = block[156];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') return read_extra(type, *size);
    const std::string name = long_name_.value_or(name_in(block));
    const std::uint64_t bytes = long_size_.value_or(*size);
    long_name_.reset();
    long_size_.reset();
    LOCKSTEP_ASSIGN(const std::string path, safe_path(name, limits_));
    if (type == '5' || ((type == '0' || type == '\0') && name.ends_with('/'))) {
      if (bytes != 0) return bad_data("the folder '" + path + "' in the archive has content");
      return path.empty() ? Status() : sink_.folder(path);
    }
    if ((type != '0' && type != '\0' && type != '7') || path.empty())
      return bad_data("'" + path + "' in the archive is neither a file nor a folder (" +
                      (type == '1' || type == '2' ? "a link" : "type " + std::to_string(type)) +
                      "): unpack it by hand and give the folder");
    LOCKSTEP_TRY(count(bytes));
    LOCKSTEP_TRY(sink_.file(path, bytes));
    return read_content(bytes,
                        [&](std::span<const std::byte> piece) { return sink_.content(piece); });
  }

  // And the padding to whole blocks.
  template <class Take>
  Status read_content(std::uint64_t bytes, Take&& take) {
    while (bytes > 0) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kPieceBytes));
      const std::size_t blocks = (wanted + kBlock - 1) / kBlock * kBlock;
      LOCKSTEP_TRY(fill(std::span(piece_).first(blocks)));
      LOCKSTEP_TRY(take(std::span<const std::byte>(piece_).first(wanted)));
      bytes -= wanted;
    }
    return {};
  }

  // What stands before an entry that does not fit into its header.
  Status read_extra(char type, std::uint64_t size) {
    if (size > kMaxHeaderBytes)
      return bad_data("a header of " + std::to_string(size) + " bytes in the archive, limit " +
                      std::to_string(kMaxHeaderBytes));
    std::string text;
    LOCKSTEP_TRY(read_content(size, [&](std::span<const std::byte> piece) -> Status {
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return {};
    }));
    if (type == 'L') long_name_ = text.substr(0, text.find('\0'));
    return type == 'x' ? read_pax(text) : Status();  // K: a link's; g: of all, never path or size
  }

  // "LENGTH KEY=VALUE\n", again and again.
  Status read_pax(std::string_view text) {
    while (!text.empty()) {
      const std::size_t blank = text.find(' ');
      const auto length = number_of<std::size_t>(text.substr(0, blank));
      if (blank == std::string_view::npos || !length || *length > text.size() ||
          *length < blank + 2)
        return bad_data("a damaged pax header in the archive");
      const std::string_view record = text.substr(blank + 1, *length - blank - 2);
      text.remove_prefix(*length);
      if (record.starts_with("path=")) long_name_ = record.substr(5);
      if (record.starts_with("GNU.sparse.")) return bad_data("the archive has sparse files");
      if (!record.starts_with("size=")) continue;
      long_size_ = number_of<std::uint64_t>(record.substr(5));
      if (!long_size_) return bad_data("a damaged pax header in the archive");
    }
    return {};
  }

  const Source& source_;
  const TarLimits& limits_;
  TarSink& sink_;
  std::vector<std::byte> piece_;
  std::uint64_t bytes_ = 0;
  std::optional<std::string> long_name_;
  std::optional<std::uint64_t> long_size_;
};

}  // namespace

Status read_tar(const Source& source, const TarLimits& limits, TarSink& sink) {
  return Reader(source, limits, sink).read_all();
}

}  // namespace lockstep::data
