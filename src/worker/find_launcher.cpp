#include "worker/find_launcher.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/path_search.h"
#include "coord/note_file.h"

namespace lockstep::worker {
namespace {

constexpr const char* kVariable = "LOCKSTEP_LAUNCHER";

// Beside the program, or in bin/ of its folder or of one of the three above: a build folder's bin
// lies beside its programs or above theirs, PREFIX/bin is one above PREFIX/lib and two above
// Debian's PREFIX/lib/x86_64-linux-gnu. Beside build/Release, of a generator of several
// configurations, it is build/bin/Release.
std::vector<std::string> places_near_program() {
  std::error_code error;
  std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return {};
  std::vector<std::string> places{folder / "lockstep",
                                  folder.parent_path() / "bin" / folder.filename() / "lockstep"};
  for (int above = 0; above <= 3; ++above, folder = folder.parent_path()) {
    places.push_back(folder / "bin/lockstep");
  }
  return places;
}

Result<std::string> checked(const std::string& call, const std::string& file) {
  const auto version = coord::noted_version(file, coord::kLauncherNote);
  if (version && *version == coord::kProtocolVersion) return file;
  Error error = version ? coord::wrong_version(coord::kProtocolVersion, *version)
                        : Error{ErrorKind::kUsage, "it is not the program 'lockstep'"};
  error.message = call + " cannot use '" + file + "' as its launcher: " + error.message;
  return error;
}

}  // namespace

Result<std::string> find_launcher(const std::string& call) {
  if (const char* given = std::getenv(kVariable); given != nullptr && *given != '\0') {
    if (is_executable(given)) return checked(call, given);
    return Error{ErrorKind::kUsage, call + ": " + kVariable + "='" + given +
                                        "' is not an executable file; it names the program "
                                        "'lockstep', which supervises the workers"};
  }
  std::string tried;
  for (const std::string& place : places_near_program()) {
    if (is_executable(place)) return checked(call, place);
    tried += "'" + place + "', ";
  }
  if (const auto found = search_path("lockstep")) return checked(call, *found);
  return Error{ErrorKind::kUsage,
               call +
                   " needs the program 'lockstep', which supervises the workers, and "
                   "it is neither at " +
                   tried + "nor in PATH. Install it beside this program, or set " + kVariable +
                   " to its path"};
}

}  // namespace lockstep::worker
