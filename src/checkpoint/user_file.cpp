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

// In its checkpoints, for one; whatever links lead there.
bool is_within_a_runs_folder(Env& env, const std::filesystem::path& place) {
  std::error_code code;
  auto folder = std::filesystem::weakly_canonical(folder_of(place), code);
  for (; folder.has_filename(); folder = folder.parent_path())
    if (is_run_name(folder.filename()) && rundir::has_manifest(env, folder_of(folder))) return true;
  return false;
}

// Where it may be: the folders on the way need not be there yet.
Result<std::string> permitted_place(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(std::string place, place_to_write(path));
  const std::filesystem::path whole(place);
  const std::string folder = folder_of(whole);
  const bool is_the_runs = is_run_name(whole.filename()) && rundir::has_manifest(env, folder);
  if (is_the_runs || is_within_a_runs_folder(env, whole))
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

Status check_user_file(Env& env, const std::string& path) {
  LOCKSTEP_TRY(permitted_place(env, path));
  return check_can_make_file(path);
}

}  // namespace lockstep::checkpoint
