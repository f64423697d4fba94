#include "data/archive/tar.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "data/archive/sparse.h"

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

// As GNU tar writes it unless it is asked for POSIX's formats.
bool is_gnu(const Block& block) { return std::string_view(block.data() + 257, 6) == "ustar "; }

std::string name_in(const Block& block) {
  const bool posix = std::string_view(block.data() + 257, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = posix ? field(block, 345, 155) : std::string_view();
  return (prefix.empty() ? "" : std::string(prefix) + "/") + std::string(field(block, 0, 100));
}

std::string name_of_type(char type) {
  constexpr std::array<std::pair<char, const char*>, 5> kNames{{{'2', "a symbolic link"},
                                                                {'3', "a device"},
                                                                {'4', "a device"},
                                                                {'6', "a pipe"},
                                                                {'M', "a part of a file"}}};
  const auto* const found = std::ranges::find(kNames, type, &std::pair<char, const char*>::first);
  if (found != kNames.end()) return found->second;
  return "type " + (type > ' ' && type < 0x7F ? std::string(1, type) : std::to_string(type));
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

  // What stands before an entry, of things that do not fit into its header.
  struct Extra {
    std::optional<std::string> name, link;
    std::optional<std::uint64_t> size;
    std::optional<PaxSparse> sparse;
  };

  Status read_entry(const Block& block) {
    const std::optional<std::uint64_t> size = number(block, 124, 12);
    if (!size) return bad_data("'" + name_in(block) + "' in the archive has no size");
    const char type = block[156];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') return read_extra(type, *size);
    Extra extra = std::exchange(extra_, {});
    if (type == 'V') return pass_over(*size);  // GNU's label of the archive
    std::string name = extra.name.value_or(name_in(block));
    if (extra.sparse && extra.sparse->name()) name = *extra.sparse->name();
    const std::uint64_t bytes = extra.size.value_or(*size);
    LOCKSTEP_ASSIGN(const std::string path, safe_path(name, limits_));
    const bool file = type == '0' || type == '\0' || type == '7';
    if (type == 'D') {  // of GNU's incremental ones: what the folder had in it then
      if (!path.empty()) LOCKSTEP_TRY(sink_.folder(path));
      return pass_over(bytes);
    }
    if (type == '5' || (file && name.ends_with('/'))) {
      if (bytes != 0) return bad_data("the folder '" + path + "' in the archive has content");
      return path.empty() ? Status() : sink_.folder(path);
    }
    if (!path.empty() && type == '1')
      return read_link(path, extra.link.value_or(std::string(field(block, 157, 100))));
    if (!path.empty() && type == 'S' && is_gnu(block)) return read_gnu_sparse(path, bytes, block);
    if (!file || path.empty())
      return bad_data("'" + path + "' in the archive is neither a file nor a folder (" +
                      name_of_type(type) + "): unpack it by hand and give the folder");
    if (extra.sparse) return read_pax_sparse(path, bytes, *extra.sparse);
    LOCKSTEP_TRY(count(bytes));
    LOCKSTEP_TRY(sink_.file(path, bytes));
    return read_content(bytes,
                        [&](std::span<const std::byte> piece) { return sink_.content(piece); });
  }

  // A hard link: another name of a file before it. It has no content, whatever its size is
  // (GNU tar reads them so).
  Status read_link(const std::string& path, const std::string& name) {
    LOCKSTEP_ASSIGN(const std::string target, safe_path(name, limits_));
    if (target.empty() || target == path)
      return bad_data("'" + path +
                      "' in the archive is a link to no file: unpack it by hand and "
                      "give the folder");
    return sink_.link(path, target);
  }

  Status read_gnu_sparse(const std::string& path, std::uint64_t stored, const Block& block) {
    constexpr std::size_t kEntryBytes = 24, kNumberBytes = 12;
    const auto damaged = [&] { return bad_data("'" + path + "' in the archive: a damaged map"); };
    const std::optional<std::uint64_t> size = number(block, 483, kNumberBytes);
    if (!size) return damaged();
    SparseMap map{*size, {}};
    // The first unused entry ends them.
    const auto take = [&](const Block& from, std::size_t at, std::size_t entries) -> Status {
      for (std::size_t i = 0; i < entries && from[at + i * kEntryBytes + kNumberBytes] != 0; ++i) {
        const auto offset = number(from, at + i * kEntryBytes, kNumberBytes);
        const auto bytes = number(from, at + i * kEntryBytes + kNumberBytes, kNumberBytes);
        if (!offset || !bytes) return damaged();
        LOCKSTEP_TRY(map.add(*offset, *bytes));
      }
      return {};
    };
    LOCKSTEP_TRY(take(block, 386, 4));
    for (bool more = block[482] != 0; more;) {
      Block next;
      LOCKSTEP_TRY(fill(std::as_writable_bytes(std::span(next))));
      LOCKSTEP_TRY(count(kBlock));
      LOCKSTEP_TRY(take(next, 0, 21));
      more = next[504] != 0;
    }
    return read_sparse(path, stored, map);
  }

  Status read_pax_sparse(const std::string& path, std::uint64_t stored, const PaxSparse& sparse) {
    if (!sparse.map_in_content()) {
      LOCKSTEP_ASSIGN(const SparseMap map, sparse.map());
      return read_sparse(path, stored, map);
    }
    Block block;
    const auto next = [&]() -> Result<std::string_view> {
      if (stored < kBlock) return bad_data("'" + path + "' in the archive: its map is cut off");
      stored -= kBlock;
      LOCKSTEP_TRY(count(kBlock));
      LOCKSTEP_TRY(fill(std::as_writable_bytes(std::span(block))));
      return std::string_view(block.data(), block.size());
    };
    LOCKSTEP_ASSIGN(const SparseMap map, sparse.read_map(next));
    return read_sparse(path, stored, map);
  }

  Status read_sparse(const std::string& path, std::uint64_t stored, const SparseMap& map) {
    LOCKSTEP_TRY(map.check(stored));
    LOCKSTEP_TRY(count(map.size));
    LOCKSTEP_TRY(sink_.file(path, map.size));
    SparseContent content(map,
                          [&](std::span<const std::byte> piece) { return sink_.content(piece); });
    LOCKSTEP_TRY(read_content(
        stored, [&](std::span<const std::byte> piece) { return content.stored(piece); }));
    return content.end();
  }

  Status pass_over(std::uint64_t bytes) {
    LOCKSTEP_TRY(count(bytes));
    return read_content(bytes, [](std::span<const std::byte>) { return Status(); });
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
    if (type == 'L' || type == 'K')
      (type == 'L' ? extra_.name : extra_.link) = text.substr(0, text.find('\0'));
    return type == 'x' ? read_pax(text) : Status();  // g: of all, never path or size
  }

  // "LENGTH KEY=VALUE\n", again and again.
  Status read_pax(std::string_view text) {
    while (!text.empty()) {
      const std::size_t blank = text.find(' ');
      const auto length = number_of<std::size_t>(text.substr(0, blank));
      if (blank == std::string_view::npos || !length || *length > text.size() ||
          *length < blank + 2)
        return bad_data("a damaged pax header in the archive");
      LOCKSTEP_TRY(take_record(text.substr(blank + 1, *length - blank - 2)));
      text.remove_prefix(*length);
    }
    return {};
  }

  Status take_record(std::string_view record) {
    constexpr std::string_view kSparse = "GNU.sparse.";
    const std::size_t equals = std::min(record.find('='), record.size());
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(std::min(equals + 1, record.size()));
    if (key == "path") extra_.name = value;
    if (key == "linkpath") extra_.link = value;
    if (key.starts_with(kSparse)) {
      if (!extra_.sparse) extra_.sparse.emplace();
      return extra_.sparse->take(key.substr(kSparse.size()), value);
    }
    if (key != "size") return {};
    extra_.size = number_of<std::uint64_t>(value);
    return extra_.size ? Status() : bad_data("a damaged pax header in the archive");
  }

  const Source& source_;
  const TarLimits& limits_;
  TarSink& sink_;
  std::vector<std::byte> piece_;
  std::uint64_t bytes_ = 0;
  Extra extra_;
};

}  // namespace

Status read_tar(const Source& source, const TarLimits& limits, TarSink& sink) {
  return Reader(source, limits, sink).read_all();
}

}  // namespace lockstep::data
