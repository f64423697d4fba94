#include "launcher/program/startable.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/path_search.h"

namespace lockstep::launcher {
namespace {

constexpr int kMostInterpreters = 5;  // of one another: the kernel's limit
constexpr std::size_t kHead = 256;    // what the kernel looks at
constexpr std::uint64_t kMostLoader = 4096;

// The first bytes, and what is at `offset`.
std::string bytes_of(const std::string& file, std::uint64_t offset, std::size_t size) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(size, '\0');
  stream.seekg(static_cast<std::streamoff>(offset));
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return bytes;
}

template <class T>
bool take(const std::string& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

// Somebody may have told the kernel what else it can start: binfmt_misc.
bool knows_other_formats() {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/sys/fs/binfmt_misc", error), end;
       !error && entry != end; entry.increment(error))
    if (const auto name = entry->path().filename(); name != "register" && name != "status")
      return true;
  return false;
}

std::string as_shown(std::string text) {
  for (std::size_t at = 0; (at = text.find('\r', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\r");
  return text;
}

Error cannot(const std::string& file, const std::string& why) {
  return misuse("cannot start '" + file + "': " + why);
}

// Of the file itself: there, no folder, allowed.
Status check_mode(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return cannot(file, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return cannot(file, "it is a folder");
  if (!S_ISREG(info.st_mode)) return cannot(file, "not an executable file");
  if (::access(file.c_str(), X_OK) == 0) return {};
  const int code = errno;
  struct statvfs system {};
  if (::statvfs(file.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0)
    return cannot(file, "its file system is mounted with 'noexec'");
  if ((info.st_mode & 0111) == 0)
    return cannot(file, "not an executable file (chmod +x makes it one)");
  return cannot(file, std::strerror(code));
}

Status check(const std::string& file, int depth);

// `line`: what follows "#!".
Status check_interpreter(const std::string& file, std::string_view line, int depth) {
  const std::string whole = as_shown(std::string(line));
  const std::string hint =
      line.find('\r') == std::string_view::npos
          ? ""
          : "; \\r is a line end as editors on Windows write it: take them out with sed -i "
            "'s/\\r$//' '" +
                file + "'";
  std::vector<std::string> words;
  std::istringstream stream{std::string(line)};
  for (std::string word; stream >> word;) words.push_back(word);
  // The kernel ends a word at a space or tab alone.
  const auto begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || words.empty())
    return cannot(file, "its first line, '#!" + whole + "', names no interpreter" + hint);
  const std::string interpreter(line.substr(begin, line.find_first_of(" \t", begin) - begin));
  const std::string named =
      "its interpreter '" + as_shown(interpreter) + "', of its first line '#!" + whole + "', ";
  if (::access(interpreter.c_str(), F_OK) != 0)
    return cannot(file, named + "cannot be found: " + std::strerror(errno) + hint);
  if (const Status status = check(interpreter, depth + 1); !status.ok())
    return cannot(file, named + "cannot be started: " + status.error().message);
  if (std::filesystem::path(interpreter).filename() != "env") return {};
  // env(1): one argument, "PROGRAM", or "-S [-...] [NAME=VALUE...] PROGRAM ..." in parts.
  std::string_view rest = line.substr(begin + interpreter.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  rest = rest.substr(0, rest.find_last_not_of(" \t") + 1);
  std::string program(rest);
  if (rest.starts_with("-")) {
    const bool split = rest.starts_with("-S") || rest.starts_with("--split-string");
    if (!split) return {};  // env says it
    words.erase(words.begin());
    program.clear();
    for (std::string word : words) {
      if (word.starts_with("-S") && word.size() > 2) word.erase(0, 2);
      if (word.starts_with('-') || word.find('=') != std::string::npos) continue;
      program = word;
      break;
    }
  }
  if (program.empty() || program.find('=') != std::string::npos) return {};
  const bool found = program.find('/') != std::string::npos ? is_executable(program)
                                                            : search_path(program).has_value();
  if (found) return {};
  return cannot(file, "'" + as_shown(program) + "', which its first line '#!" + whole +
                          "' starts it by, is not in PATH" + hint);
}

template <class Header, class Segment>
Status check_loader(const std::string& file, const Header& header, int depth) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Segment segment{};
    if (!take(
            bytes_of(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize, sizeof segment),
            segment))
      return cannot(file, "it is cut short: an ELF file without its program headers");
    if (segment.p_type != PT_INTERP || segment.p_filesz > kMostLoader) continue;
    std::string loader =
        bytes_of(file, segment.p_offset, static_cast<std::size_t>(segment.p_filesz));
    loader.resize(std::min(loader.size(), loader.find('\0')));
    if (::access(loader.c_str(), F_OK) != 0)
      return cannot(file, "its loader '" + loader + "' cannot be found: " + std::strerror(errno) +
                              "; it was built for another system (or C library) than this one");
    return depth < kMostInterpreters ? check_mode(loader) : Status();
  }
  return {};
}

const char* name_of(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_386:
      return "x86 (32 bits)";
    case EM_AARCH64:
      return "64-bit ARM";
    case EM_ARM:
      return "32-bit ARM";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "POWER";
    case EM_S390:
      return "s390";
    default:
      return "another kind";
  }
}

Status check_elf(const std::string& file, const std::string& head, int depth) {
  Elf64_Ehdr header{}, own{};
  const bool wide = head.size() > EI_CLASS && head[EI_CLASS] == ELFCLASS64;
  if (head.size() < (wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)))
    return cannot(file, "it is cut short: it begins as an ELF file and has " +
                            std::to_string(head.size()) + " bytes");
  (void)take(head, header);  // both kinds are equal up to e_machine and e_type
  const bool known = take(bytes_of("/proc/self/exe", 0, sizeof own), own);
  const bool older = header.e_machine == EM_386 && own.e_machine == EM_X86_64;
  if (known &&
      (header.e_machine != own.e_machine || header.e_ident[EI_DATA] != own.e_ident[EI_DATA]) &&
      !older)
    return cannot(file, std::string("it is for a processor of ") + name_of(header.e_machine) +
                            ", and this one is " + name_of(own.e_machine));
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    return cannot(file, "an ELF file that is no program (an object file, or a core)");
  if (wide) return check_loader<Elf64_Ehdr, Elf64_Phdr>(file, header, depth);
  Elf32_Ehdr narrow{};
  (void)take(head, narrow);
  return check_loader<Elf32_Ehdr, Elf32_Phdr>(file, narrow, depth);
}

Status check(const std::string& file, int depth) {
  LOCKSTEP_TRY(check_mode(file));
  if (::access(file.c_str(), R_OK) != 0) return {};  // it may be started, and not be looked at
  const std::string head = bytes_of(file, 0, kHead);
  if (head.starts_with("#!")) {
    if (depth >= kMostInterpreters)
      return cannot(file, "its interpreter is a script in turn, more than " +
                              std::to_string(kMostInterpreters) + " times");
    return check_interpreter(file, std::string_view(head).substr(2, head.find('\n') - 2), depth);
  }
  if (knows_other_formats()) return {};
  if (head.starts_with(ELFMAG)) return check_elf(file, head, depth);
  if (head.empty()) return cannot(file, "it is empty");
  const bool marked = head.starts_with("\xEF\xBB\xBF#!");
  return cannot(file, marked ? "a byte order mark stands before its '#!': save it without one"
                             : "it is neither a program of this system nor a script whose first "
                               "line names its interpreter (like #!/bin/sh)");
}

}  // namespace

Status check_startable(const std::string& file) { return check(file, 0); }

}  // namespace lockstep::launcher
