#include "coord/note_file.h"

#include <elf.h>

#include <cstring>

#include "coord/elf_file.h"

namespace lockstep::coord {
namespace {

constexpr std::size_t kMaxNoteBytes = 64 * 1024;

std::optional<std::uint32_t> version_in(const ElfFile::Part& part, const Note& like) {
  const std::string& notes = part.bytes;
  const std::size_t unit = part.align == 8 ? 8 : 4;
  const auto round_up = [&](std::size_t value) { return (value + unit - 1) / unit * unit; };
  for (std::size_t at = 0; at + sizeof(Note) <= notes.size();) {
    Note note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    if (std::memcmp(&note, &like, offsetof(Note, version)) == 0) return note.version;
    const std::size_t name_at = at + sizeof(Elf64_Nhdr);
    if (note.name_bytes > notes.size() - name_at) return std::nullopt;
    at = round_up(round_up(name_at + note.name_bytes) + note.version_bytes);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> noted_version(const ElfFile& file, const Note& like) {
  for (const ElfFile::Part& part : file.parts(PT_NOTE, kMaxNoteBytes))
    if (const auto version = version_in(part, like)) return version;
  return std::nullopt;
}

std::optional<std::uint32_t> noted_version(const std::string& file, const Note& like) {
  const auto elf = ElfFile::open(file);
  return elf ? noted_version(*elf, like) : std::nullopt;
}

}  // namespace lockstep::coord
