#include "coord/note_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/unique_fd.h"

namespace lockstep::coord {
namespace {

constexpr std::size_t kMaxNoteBytes = 64 * 1024;

bool read_exactly(int fd, void* data, std::size_t size, std::uint64_t offset) {
  return ::pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

std::optional<std::uint32_t> version_in_segment(int fd, const Elf64_Phdr& segment,
                                                const Note& like) {
  if (segment.p_filesz > kMaxNoteBytes) return std::nullopt;
  std::string notes(segment.p_filesz, '\0');
  if (!read_exactly(fd, notes.data(), notes.size(), segment.p_offset)) return std::nullopt;
  const std::size_t unit = segment.p_align == 8 ? 8 : 4;
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

std::optional<std::uint32_t> noted_version(const std::string& file, const Note& like) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr head;
  if (!fd || !read_exactly(fd.get(), &head, sizeof head, 0)) return std::nullopt;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return std::nullopt;
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_exactly(fd.get(), &segment, sizeof segment, head.e_phoff + i * sizeof segment))
      return std::nullopt;
    if (segment.p_type != PT_NOTE) continue;
    if (const auto version = version_in_segment(fd.get(), segment, like)) return version;
  }
  return std::nullopt;
}

}  // namespace lockstep::coord
