#include "inspect/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace lockstep::inspect {
namespace {

namespace fs = std::filesystem;

bool is_page_or_export(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kEndings{".html", ".htm", ".pt", ".pth"};
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end();
}

// `place` or a folder that it is in.
bool is_or_holds(Env& env, const FileId& input, const fs::path& place) {
  for (fs::path at = place;; at = at.parent_path()) {
    const auto id = env.file_id(at.string());
    if (id.ok() && *id == input) return true;
    if (at == at.parent_path()) return false;
  }
}

}  // namespace

std::optional<Error> hidden_at(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 || errno == ENOENT || errno == ENOTDIR) continue;
    return Error{ErrorKind::kDisk, "cannot look at '" + path + "': " + std::strerror(errno)};
  }
  return std::nullopt;
}

Status check_not_read(Env& env, const std::string& out, std::span<const std::string> inputs) {
  LOCKSTEP_ASSIGN(const std::string target, place_to_write(out));
  std::error_code code;
  const fs::path place = fs::canonical(target, code);
  if (code) return {};  // nothing is there yet
  for (const std::string& input : inputs) {
    const auto id = env.file_id(input);
    if (!id.ok() || !is_or_holds(env, *id, place)) continue;
    const auto own = env.file_id(place.string());
    const bool itself = own.ok() && *own == *id;
    if (!itself && is_page_or_export(place)) continue;
    return Error{ErrorKind::kUsage, "'" + out + "' " + (itself ? "is" : "is part of") +
                                        " what is read here ('" + input +
                                        "') and would be lost; give another name"};
  }
  return {};
}

}  // namespace lockstep::inspect
