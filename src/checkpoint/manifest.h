// manifest.json: what a checkpoint consists of. Written last; a directory without it is no
// checkpoint.
//
// The text's last key is the XXH3-64 of all bytes before it, so a flipped bit anywhere shows.
// Hashes of files are XXH3-64 (damage is looked for at every load, at memory speed); weights_sha256
// is for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint.h"
#include "lockstep/status.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kFormatVersion = 1;
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 20;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kStateName = "state.json";

struct FileEntry {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::uint64_t xxh3 = 0;

  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct Manifest {
  std::uint64_t version = kFormatVersion;  // another one: all else is empty
  std::uint64_t generation = 0;            // of the members, from 1 at each start of the launcher
  std::uint32_t virtual_workers = 0;       // V
  RunCursor cursor;
  std::string run_identity;      // hash of all that decides the run's arithmetic; printable ASCII
  std::string weights_sha256;    // of the part "model"; may be empty
  std::vector<FileEntry> files;  // sorted by name

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string to_json(const Manifest& manifest);
// kBadData for anything that to_json() did not write.
Result<Manifest> parse_manifest(std::string_view text);

// `body` without its last "\n}", with the hash as last key. parse_manifest() looks at nothing else
// before it matches.
std::string seal(const std::string& body);

}  // namespace lockstep::checkpoint
