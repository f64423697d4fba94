#include "checkpoint/file_reader.h"

#include <algorithm>
#include <array>
#include <map>

#include "checkpoint/names.h"

namespace lockstep::checkpoint {
namespace {

// Small enough to be hashed while it is still in the cache.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::size_t kNamed = 3;

using ByName = std::map<std::string_view, const TensorInfo*>;

// The first few differences, one after another.
class Few {
 public:
  void add(const std::string& what, const std::string& name = "",
           std::span<const std::string> others = {}) {
    if (++count_ > kNamed) return;
    text_ += (text_.empty() ? "" : "; ") + what + nearest_names(name, others);
  }
  std::optional<std::string> text() const {
    if (count_ == 0) return std::nullopt;
    if (count_ <= kNamed) return text_;
    return text_ + "; and " + std::to_string(count_ - kNamed) + " more";
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

Status read_pieces(ReadableFile& file, std::uint64_t at, std::span<std::byte> out, Xxh3* hash) {
  while (!out.empty()) {
    const auto piece = out.first(std::min(kPieceBytes, out.size()));
    LOCKSTEP_TRY(file.read_at(at, piece));
    if (hash != nullptr) hash->update(piece);
    at += piece.size();
    out = out.subspan(piece.size());
  }
  return {};
}

Status hash_all(ReadableFile& file, Xxh3& hash) {
  std::vector<std::byte> buffer(kPieceBytes);
  for (std::uint64_t at = 0; at < file.size(); at += kPieceBytes) {
    const std::uint64_t left = std::min<std::uint64_t>(kPieceBytes, file.size() - at);
    LOCKSTEP_TRY(
        read_pieces(file, at, std::span(buffer).first(static_cast<std::size_t>(left)), &hash));
  }
  return {};
}

Verdict damaged(const std::string& reason) { return {Trouble::kDamaged, reason}; }

Verdict compare(const std::string& path, const Xxh3& hash, const FileEntry& entry) {
  if (hash.value() == entry.xxh3) return {};
  return damaged("'" + path + "': its bytes do not have the hash in the manifest");
}

// Before calling a file foreign, make sure that it says what was written.
Verdict foreign_if_whole(ReadableFile& file, const std::string& path, const FileEntry& entry,
                         const std::string& reason) {
  Xxh3 hash;
  if (const Status read = hash_all(file, hash); !read.ok()) return damaged(read.error().message);
  Verdict verdict = compare(path, hash, entry);
  if (verdict.trouble != Trouble::kNone) return verdict;
  return {Trouble::kForeign, "'" + path + "': " + reason};
}

Verdict examine_tensors(ReadableFile& file, const std::string& path, const FileEntry& entry,
                        const std::vector<NamedTarget>& targets) {
  Xxh3 hash;
  const auto header = read_header(file, &hash);
  if (!header.ok()) return damaged("'" + path + "': " + header.error().message);
  if (const auto differs = difference(*header, targets))
    return foreign_if_whole(file, path, entry, *differs);
  if (const Status read = read_data(file, *header, targets, &hash); !read.ok())
    return damaged(read.error().message);
  return compare(path, hash, entry);
}

}  // namespace

// Eight bytes of length, then JSON; a .pt file begins with "PK" or a pickle's 0x80.
Result<bool> is_safetensors(Env& env, const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
  std::array<std::byte, kLengthBytes + 1> start{};
  if (file->size() < start.size()) return false;
  LOCKSTEP_TRY(file->read_at(0, start));
  const bool archive = start[0] == std::byte{'P'} && start[1] == std::byte{'K'};
  return !archive && start.back() == std::byte{'{'};
}

Result<Header> read_header(ReadableFile& file, Xxh3* hash) {
  std::array<std::byte, kLengthBytes> length{};
  const auto start = std::span(length).first(
      static_cast<std::size_t>(std::min<std::uint64_t>(kLengthBytes, file.size())));
  LOCKSTEP_TRY(file.read_at(0, start));
  LOCKSTEP_ASSIGN(const std::uint64_t bytes, data_start_of(start, file.size()));
  std::vector<std::byte> text(static_cast<std::size_t>(bytes));
  LOCKSTEP_TRY(file.read_at(0, text));
  if (hash != nullptr) hash->update(text);
  return parse_header(text, file.size());
}

std::optional<std::string> difference(const Header& header, std::span<const NamedTarget> targets) {
  ByName theirs;
  for (const Entry& entry : header.entries) theirs[entry.info.name] = &entry.info;
  std::vector<std::string> missing, unknown;
  std::vector<std::string> differing;
  for (const NamedTarget& target : targets) {
    const auto found = theirs.find(target.info.name);
    if (found == theirs.end()) {
      missing.push_back(target.info.name);
      continue;
    }
    if (*found->second != target.info)
      differing.push_back("tensor " + quote(target.info.name) + " is " + describe(*found->second) +
                          " in the checkpoint, " + describe(target.info) + " here");
    theirs.erase(found);
  }
  for (const Entry& entry : header.entries)
    if (theirs.contains(entry.info.name)) unknown.push_back(entry.info.name);
  Few text;
  for (const std::string& each : differing) text.add(each);
  for (const std::string& each : missing)
    text.add("tensor " + quote(each) + " is missing in the checkpoint", each, unknown);
  for (const std::string& each : unknown)
    text.add("tensor " + quote(each) + " of the checkpoint is not known here", each, missing);
  return text.text();
}

Status read_data(ReadableFile& file, const Header& header, std::span<const NamedTarget> targets,
                 Xxh3* hash) {
  std::map<std::string_view, std::span<std::byte>> places;
  for (const NamedTarget& target : targets) places[target.info.name] = target.bytes;
  for (const Entry& entry : header.entries) {
    const auto place = places.find(entry.info.name);
    if (place == places.end() && hash == nullptr) continue;
    if (place == places.end() || place->second.size() != entry.end - entry.begin)
      return Error{ErrorKind::kInternal,
                   "no place of the right size for tensor " + quote(entry.info.name)};
    LOCKSTEP_TRY(read_pieces(file, header.data_start + entry.begin, place->second, hash));
  }
  return {};
}

Verdict examine_file(Env& env, const std::string& path, const FileEntry& entry,
                     const std::vector<NamedTarget>* targets) {
  const auto file = env.open_read(path);
  if (!file.ok()) return damaged(file.error().message);
  if ((*file)->size() != entry.size)
    return damaged("'" + path + "' has " + std::to_string((*file)->size()) +
                   " bytes, its manifest says " + std::to_string(entry.size));
  if (targets != nullptr) return examine_tensors(**file, path, entry, *targets);
  Xxh3 hash;
  if (const Status read = hash_all(**file, hash); !read.ok()) return damaged(read.error().message);
  return compare(path, hash, entry);
}

}  // namespace lockstep::checkpoint
