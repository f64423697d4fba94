// Small ELF files for tests: a note and a dynamic section, as a linker would write them.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "coord/version.h"

namespace lockstep::test {

struct ElfText {
  std::vector<std::string> needed = {};
  std::string rpath = {}, runpath = {};
  std::optional<std::uint32_t> version = std::nullopt;  // of a note
#ifdef __aarch64__
  Elf64_Half machine = EM_AARCH64;
#else
  Elf64_Half machine = EM_X86_64;
#endif
};

inline std::string elf_bytes(const ElfText& text) {
  std::string texts(1, '\0');
  std::vector<Elf64_Dyn> entries;
  const auto add = [&](Elf64_Sxword tag, const std::string& value) {
    entries.push_back({tag, {texts.size()}});
    texts += value + '\0';
  };
  for (const std::string& name : text.needed) add(DT_NEEDED, name);
  if (!text.rpath.empty()) add(DT_RPATH, text.rpath);
  if (!text.runpath.empty()) add(DT_RUNPATH, text.runpath);
  constexpr std::uint64_t kBase = 0x10000;  // addresses are no offsets
  const std::size_t texts_at = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
  const std::size_t dynamic_at = (texts_at + texts.size() + 15) / 16 * 16;
  entries.push_back({DT_STRTAB, {kBase + texts_at}});
  entries.push_back({DT_NULL, {0}});
  const std::size_t note_at = dynamic_at + entries.size() * sizeof(Elf64_Dyn);
  coord::Note note = coord::kNote;
  note.version = text.version.value_or(0);
  const std::size_t size = note_at + sizeof note;

  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_DYN;
  head.e_machine = text.machine;
  head.e_phoff = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 3;
  const auto segment = [&](Elf64_Word type, std::size_t offset, std::size_t bytes) {
    return Elf64_Phdr{type, PF_R, offset, kBase + offset, kBase + offset, bytes, bytes, 8};
  };
  Elf64_Phdr segments[] = {segment(PT_LOAD, 0, size),
                           segment(PT_DYNAMIC, dynamic_at, note_at - dynamic_at),
                           segment(text.version ? PT_NOTE : PT_NULL, note_at, sizeof note)};
  segments[2].p_align = 4;

  std::string bytes(size, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, segments, sizeof segments);
  std::memcpy(bytes.data() + texts_at, texts.data(), texts.size());
  std::memcpy(bytes.data() + dynamic_at, entries.data(), entries.size() * sizeof(Elf64_Dyn));
  std::memcpy(bytes.data() + note_at, &note, sizeof note);
  return bytes;
}

inline void write_elf(const std::string& path, const ElfText& text) {
  std::ofstream(path, std::ios::binary) << elf_bytes(text);
}

}  // namespace lockstep::test
