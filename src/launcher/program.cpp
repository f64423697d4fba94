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
#include "coord/version.h"

namespace lockstep::launcher {
namespace {

constexpr std::size_t kMaxNoteBytes = 64 * 1024;

bool read_exactly(int fd, void* data, std::size_t size, std::uint64_t offset) {
  return ::pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

std::optional<std::uint32_t> version_in_segment(int fd, const Elf64_Phdr& segment) {
  if (segment.p_filesz > kMaxNoteBytes) return std::nullopt;
  std::string notes(segment.p_filesz, '\0');
  if (!read_exactly(fd, notes.data(), notes.size(), segment.p_offset)) return std::nullopt;
  const std::size_t unit = segment.p_align == 8 ? 8 : 4;
  const auto round_up = [&](std::size_t value) { return (value + unit - 1) / unit * unit; };
  for (std::size_t at = 0; at + sizeof(coord::Note) <= notes.size();) {
    coord::Note note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    if (std::memcmp(&note, &coord::kNote, offsetof(coord::Note, version)) == 0) return note.version;
    const std::size_t name_at = at + sizeof(Elf64_Nhdr);
    if (note.name_bytes > notes.size() - name_at) return std::nullopt;
    at = round_up(round_up(name_at + note.name_bytes) + note.version_bytes);
  }
  return std::nullopt;
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

std::optional<std::uint32_t> lockstep_version_of(const std::string& file) {
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
    if (const auto version = version_in_segment(fd.get(), segment)) return version;
  }
  return std::nullopt;
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
  const auto version = lockstep_version_of(program.file);
  if (version && *version != coord::kProtocolVersion)
    return coord::wrong_version(*version, coord::kProtocolVersion);
  program.linked = version.has_value();
  return program;
}

}  // namespace lockstep::launcher
