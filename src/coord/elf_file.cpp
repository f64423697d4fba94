#include "coord/elf_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

namespace lockstep::coord {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "the ELF machine of this processor is not known"
#endif

constexpr std::size_t kMostSegments = 1024;
constexpr std::size_t kMostDynamicBytes = std::size_t{1} << 20;
constexpr std::size_t kMostLibraries = 1024;  // of one file
constexpr std::size_t kMostText = 4096;       // a path's length

bool read_at(int fd, void* data, std::size_t size, std::uint64_t offset) {
  return ::pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

bool is_of_this_machine(const Elf64_Ehdr& head) {
  return std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
         head.e_ident[EI_DATA] == ELFDATA2LSB && head.e_machine == kMachine &&
         head.e_phentsize == sizeof(Elf64_Phdr);
}

}  // namespace

std::optional<ElfFile> ElfFile::open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr head;
  if (!file || !read_at(file.get(), &head, sizeof head, 0) || !is_of_this_machine(head) ||
      head.e_phnum > kMostSegments)
    return std::nullopt;
  std::vector<Elf64_Phdr> segments(head.e_phnum);
  if (!read_at(file.get(), segments.data(), segments.size() * sizeof(Elf64_Phdr), head.e_phoff))
    return std::nullopt;
  return ElfFile(std::move(file), std::move(segments));
}

std::vector<ElfFile::Part> ElfFile::parts(std::uint32_t type, std::size_t most_bytes) const {
  std::vector<Part> found;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != type || segment.p_filesz > most_bytes) continue;
    Part part{std::string(segment.p_filesz, '\0'), segment.p_align};
    if (read_at(file_.get(), part.bytes.data(), part.bytes.size(), segment.p_offset))
      found.push_back(std::move(part));
  }
  return found;
}

std::optional<std::uint64_t> ElfFile::offset_of(std::uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  return std::nullopt;
}

std::string ElfFile::text_at(std::uint64_t offset) const {
  std::array<char, kMostText> text;
  const ssize_t size = ::pread(file_.get(), text.data(), text.size(), static_cast<off_t>(offset));
  if (size <= 0) return "";
  const std::size_t length = ::strnlen(text.data(), static_cast<std::size_t>(size));
  return length == static_cast<std::size_t>(size) ? "" : std::string(text.data(), length);
}

ElfFile::Needs ElfFile::needs() const {
  std::vector<Elf64_Dyn> entries;
  for (const Part& part : parts(PT_DYNAMIC, kMostDynamicBytes)) {
    entries.resize(part.bytes.size() / sizeof(Elf64_Dyn));
    if (!entries.empty())  // memcpy takes no null pointer, not even for nothing
      std::memcpy(entries.data(), part.bytes.data(), entries.size() * sizeof(Elf64_Dyn));
    break;
  }
  std::optional<std::uint64_t> texts;
  std::size_t count = 0;
  for (; count < entries.size() && entries[count].d_tag != DT_NULL; ++count)
    if (entries[count].d_tag == DT_STRTAB) texts = offset_of(entries[count].d_un.d_ptr);
  Needs needs;
  for (std::size_t i = 0; i < count && texts; ++i) {
    const auto text = [&] { return text_at(*texts + entries[i].d_un.d_val); };
    if (entries[i].d_tag == DT_RPATH) needs.rpath = text();
    if (entries[i].d_tag == DT_RUNPATH) needs.runpath = text();
    if (entries[i].d_tag == DT_NEEDED && needs.libraries.size() < kMostLibraries)
      needs.libraries.push_back(text());
  }
  return needs;
}

}  // namespace lockstep::coord
