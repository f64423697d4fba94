#include "checkpoint/user_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "checkpoint/tensor.h"
#include "rundir/manifest.h"
#include "rundir/names.h"

namespace lockstep::checkpoint {

Result<std::string> place_of_user_file(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(std::string place, place_to_write(path));
  const std::filesystem::path whole(place);
  const std::string name = whole.filename().string();
  // "." and not "": that would be looked for in the root.
  const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
  const bool reserved =
      name == "manifest.json" ||
      std::ranges::find(rundir::kRunNames, std::string_view(name)) != rundir::kRunNames.end();
  if (reserved && rundir::has_manifest(env, folder))
    return Error{ErrorKind::kUsage,
                 quote(path) + " is the run's own in its directory; give another path"};
  LOCKSTEP_TRY(env.make_dirs(folder));
  return place;
}

}  // namespace lockstep::checkpoint
