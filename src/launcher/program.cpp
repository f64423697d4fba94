#include "launcher/program.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"

namespace lockstep::launcher {
namespace {

// Name and type of the note: the same in src/worker/note.cpp.
constexpr std::string_view kNoteName{"Lockstep\0", 9};
constexpr std::uint32_t kNoteType = 1;
constexpr std::size_t kMaxNoteBytes = 64 * 1024;

bool read_exactly(int fd, void* data, std::size_t size, std::uint64_t offset) {
  return ::pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

bool note_in_segment(int fd, const Elf64_Phdr& segment) {
  if (segment.p_filesz > kMaxNoteBytes) return false;
  std::string notes(segment.p_filesz, '\0');
  if (!read_exactly(fd, notes.data(), notes.size(), segment.p_offset)) return false;
  const std::size_t unit = segment.p_align == 8 ? 8 : 4;
  const auto round_up = [&](std::size_t value) { return (value + unit - 1) / unit * unit; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr head;
    std::memcpy(&head, notes.data() + at, sizeof head);
    const std::size_t name_at = at + sizeof head;
    if (head.n_namesz > notes.size() - name_at) return false;
    if (head.n_type == kNoteType &&
        std::string_view(notes).substr(name_at, head.n_namesz) == kNoteName)
      return true;
    at = round_up(round_up(name_at + head.n_namesz) + head.n_descsz);
  }
  return false;
}

bool executable(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

Result<std::string> find_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (executable(name)) return name;
    const char* why =
        ::access(name.c_str(), F_OK) != 0 ? std::strerror(errno) : "not an executable file";
    return Error{ErrorKind::kUsage, "cannot start '" + name + "': " + why};
  }
  const char* variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? "/usr/bin:/bin" : variable;
  while (true) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string folder(end == 0 ? "." : path.substr(0, end));
    if (executable(folder + "/" + name)) return folder + "/" + name;
    if (end == path.size()) break;
    path.remove_prefix(end + 1);
  }
  std::string message = "cannot start '" + name + "': no such program in PATH";
  if (executable("./" + name)) message += "; did you mean './" + name + "'?";
  return Error{ErrorKind::kUsage, message};
}

Result<Program> python_program(const LaunchOptions& options) {
  const char* chosen = std::getenv("PYTHON_EXEC");  // torchrun's variable
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  Program program;
  program.name = options.program.front();
  LOCKSTEP_ASSIGN(program.file, find_in_path(python));
  program.arguments = {python, "-u"};
  if (options.module) program.arguments.emplace_back("-m");
  program.arguments.insert(program.arguments.end(), options.program.begin(), options.program.end());
  return program;
}

}  // namespace

bool has_lockstep_note(const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr head;
  if (!fd || !read_exactly(fd.get(), &head, sizeof head, 0)) return false;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_exactly(fd.get(), &segment, sizeof segment, head.e_phoff + i * sizeof segment))
      return false;
    if (segment.p_type == PT_NOTE && note_in_segment(fd.get(), segment)) return true;
  }
  return false;
}

Result<Program> find_program(const LaunchOptions& options) {
  const std::string& name = options.program.front();
  if (options.module) return python_program(options);
  if (!options.no_python && name.ends_with(".py")) {
    if (::access(name.c_str(), R_OK) != 0)
      return Error{ErrorKind::kUsage, "cannot start '" + name + "': " + std::strerror(errno)};
    return python_program(options);
  }
  Program program;
  program.name = options.program.front();
  LOCKSTEP_ASSIGN(program.file, find_in_path(name));
  program.arguments = options.program;
  program.linked = has_lockstep_note(program.file);
  return program;
}

}  // namespace lockstep::launcher
