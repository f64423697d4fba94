// What env.h has over paths.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/env.h"
#include "base/hash.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// "a/.." is no step where "a" is a folder, but leads elsewhere where it is a link.
fs::path without_dots(const fs::path& whole) {
  fs::path place = whole.root_path();
  std::error_code code;
  for (const fs::path& name : whole.relative_path()) {
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      place /= name;
      continue;
    }
    if (fs::is_symlink(place, code)) place = fs::weakly_canonical(place, code);
    place = place.parent_path();
  }
  return place;
}

Error cannot_write(const std::string& path, const std::string& why) {
  return {ErrorKind::kUsage, "'" + path + "' cannot be written: " + why};
}

// The folder that is there, of those above `target`; the others would be made.
Result<fs::path> nearest_folder(const fs::path& target, const std::string& path) {
  fs::path folder = target;
  for (;;) {
    const bool is_last = !folder.has_parent_path() || folder.parent_path() == folder;
    folder = is_last ? fs::path(".") : folder.parent_path();
    std::error_code code;
    const fs::file_status status = fs::status(folder, code);
    if (fs::is_directory(status)) return folder;
    if (status.type() == fs::file_type::not_found && !is_last) continue;
    return cannot_write(path, "'" + folder.string() + "' " +
                                  (fs::exists(status) ? "is no folder" : code.message()));
  }
}

}  // namespace

Status check_local(const std::string& path) {
  const std::size_t scheme = path.find("://");
  if (scheme == std::string::npos || path.find('/') < scheme) return {};
  return Error{ErrorKind::kUsage, "'" + path + "': " + path.substr(0, scheme + 3) +
                                      " cannot be read or written yet, only files and folders of "
                                      "this machine; copy it to one and give that"};
}

Result<std::string> absolute_path(const std::string& path) {
  LOCKSTEP_TRY(check_local(path));
  if (path.empty()) return Error{ErrorKind::kUsage, "an empty path where a folder's is needed"};
  std::error_code code;
  const fs::path whole = fs::absolute(path, code);
  if (!code) return without_dots(whole).string();
  return Error{ErrorKind::kDisk, "'" + path + "' has no absolute path: " + code.message() +
                                     "; does the working directory still exist?"};
}

Result<std::string> place_to_write(const std::string& path) {
  LOCKSTEP_TRY(check_local(path));
  constexpr int kMostLinks = 40;  // as the kernel has it
  fs::path place(path);
  std::error_code code;
  for (int links = 0; fs::is_symlink(place, code); ++links) {
    if (links == kMostLinks)
      return Error{ErrorKind::kUsage,
                   "'" + path + "' is a symbolic link that leads in a circle; give another path"};
    place = place.parent_path() / fs::read_symlink(place, code);
  }
  if (!fs::is_other(fs::status(place, code))) return place.string();
  return Error{ErrorKind::kUsage, "'" + path +
                                      "' is there and is no regular file; it is not replaced: "
                                      "give another path"};
}

std::string reserved_name(const std::string& name) {
  constexpr std::size_t kShort = 64;  // such a name is told to people as it is
  const std::string rest =
      name.size() <= kShort ? name : std::to_string(xxh3(std::as_bytes(std::span(name))));
  return std::string(kReservedPrefix) + rest;
}

Status check_can_make_file(const std::string& path) {
  LOCKSTEP_ASSIGN(const fs::path target, place_to_write(path));
  std::error_code code;
  if (fs::is_directory(target, code))
    return cannot_write(path, "it is a folder; give a file's path");
  if (code == std::errc::filename_too_long)
    return cannot_write(path, "a name in it, or all of it, is too long for the file system");
  if (!target.has_filename()) return cannot_write(path, "it ends with no file's name");
  LOCKSTEP_ASSIGN(const fs::path folder, nearest_folder(target, path));
  const long most = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  for (const fs::path& name : target.lexically_relative(folder))
    if (most > 0 && name.native().size() > static_cast<std::size_t>(most))
      return cannot_write(path, "'" + name.string() + "' has " +
                                    std::to_string(name.native().size()) +
                                    " bytes, and names there have at most " + std::to_string(most));
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return cannot_write(path, "folder '" + folder.string() + "': " + std::strerror(errno));
}

}  // namespace lockstep
