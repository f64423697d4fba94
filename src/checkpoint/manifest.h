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

inline constexpr std::uint64_t kFormatVersion = 2;   // the newest that is read
inline constexpr std::uint64_t kWithoutModules = 1;  // all else is the same
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 20;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kStateName = "state.json";

struct FileEntry {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::uint64_t xxh3 = 0;

  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

// A module of the run's train state, or a group of its own tensors: so many of the part "model", in
// the order of its header, behind those of the entries before. Their names there begin with
// `prefix`.
struct ModuleEntry {
  std::string name, prefix;
  std::uint64_t tensors = 0;

  friend bool operator==(const ModuleEntry&, const ModuleEntry&) = default;
};

struct Manifest {
  std::uint64_t version = kWithoutModules;  // an unknown one: all else is empty
  std::uint64_t generation = 0;             // of the members, from 1 at each start of the launcher
  std::uint32_t virtual_workers = 0;        // V
  RunCursor cursor;
  std::string run_identity;    // hash of all that decides the run's arithmetic; printable ASCII
  std::string weights_sha256;  // of the part "model"; may be empty
  // Which part of the weights is whose; exactly from version 2 on there are some.
  std::vector<ModuleEntry> modules;
  std::vector<FileEntry> files;  // sorted by name

  void set_modules(std::vector<ModuleEntry> entries);  // and the version
  bool readable() const { return version == kFormatVersion || version == kWithoutModules; }
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string to_json(const Manifest& manifest);
// kBadData for anything that to_json() did not write.
Result<Manifest> parse_manifest(std::string_view text);

// `body` without its last "\n}", with the hash as last key. parse_manifest() looks at nothing else
// before it matches.
std::string seal(const std::string& body);

}  // namespace lockstep::checkpoint
