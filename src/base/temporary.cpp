#include "base/temporary.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lockstep {
namespace {

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::string> make_temporary_folder(const std::string& prefix) {
  std::string tried;
  for (const std::string& place :
       std::array<std::string, 7>{value_of("TMPDIR"), value_of("TEMP"), value_of("TMP"), "/tmp",
                                  "/var/tmp", "/usr/tmp", "."}) {
    if (place.empty()) continue;
    std::string folder = place + "/" + prefix + "XXXXXX";
    std::error_code error;
    if (::mkdtemp(folder.data()) != nullptr) {
      const auto absolute = std::filesystem::absolute(folder, error);  // workers may go elsewhere
      return error ? folder : absolute.lexically_normal().string();
    }
    tried += (tried.empty() ? "'" : ", '") + place + "': " + std::strerror(errno);
  }
  return Error{ErrorKind::kDisk, "no folder for temporary files (" + tried +
                                     "); set TMPDIR to one that can be written"};
}

}  // namespace lockstep
