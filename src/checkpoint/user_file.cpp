#include "checkpoint/user_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "checkpoint/tensor.h"
#include "rundir/manifest.h"
#include "rundir/names.h"

namespace lockstep::checkpoint {
namespace {

bool is_run_name(const std::filesystem::path& name) {
  return name == "manifest.json" || name.string().starts_with(kReservedPrefix) ||
         std::ranges::find(rundir::kRunNames, name.string()) != rundir::kRunNames.end();
}

// "." and not "": that would be looked for in the root.
std::string folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

// With all links followed, of what is there.
std::filesystem::path canonical(const std::filesystem::path& path) {
  std::error_code code;
  // From the root first: of a relative path of which nothing is there it would make a relative one.
  auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, code), code);
  return whole.has_filename() ? whole : whole.parent_path();
}

// It, or a folder that it is in (checkpoints, for one), is what a run keeps in its directory:
// one that is there, or `run_dir`, which is to be one.
bool is_a_runs(Env& env, const std::filesystem::path& place, const std::filesystem::path& run_dir) {
  for (auto at = canonical(folder_of(place)) / place.filename(); at.has_filename();
       at = at.parent_path())
    if (is_run_name(at.filename()) &&
        (at.parent_path() == run_dir || rundir::has_manifest(env, folder_of(at))))
      return true;
  return false;
}

// Where it may be: the folders on the way need not be there yet.
Result<std::string> permitted_place(Env& env, const std::string& path,
                                    const std::string& run_dir = "") {
  LOCKSTEP_ASSIGN(std::string place, place_to_write(path));
  const auto directory = run_dir.empty() ? std::filesystem::path() : canonical(run_dir);
  if (!run_dir.empty() && canonical(place) == directory)
    return Error{ErrorKind::kUsage,
                 quote(path) + " is to be the run's directory; give another path"};
  if (is_a_runs(env, place, directory))
    return Error{ErrorKind::kUsage,
                 quote(path) + " is the run's own in its directory; give another path"};
  return place;
}

}  // namespace

Result<std::string> place_of_user_file(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(std::string place, permitted_place(env, path));
  LOCKSTEP_TRY(env.make_dirs(folder_of(place)));
  return place;
}

Status check_user_file(Env& env, const std::string& path, const std::string& run_dir) {
  LOCKSTEP_TRY(permitted_place(env, path, run_dir));
  return check_can_make_file(path);
}

}  // namespace lockstep::checkpoint
