#include "base/places.h"

#include <algorithm>
#include <chrono>

#include "base/deadline.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 1s;

}  // namespace

Result<Places> Places::of(Env& env, const std::vector<std::string>& paths) {
  std::vector<Place> places;
  for (const std::string& path : paths) {
    LOCKSTEP_ASSIGN(const FileId id, env.file_id(path));
    places.push_back({path, id});
  }
  return Places(env, std::move(places));
}

bool Places::is_there(const Place& place) const {
  const Result<FileId> now = env_->file_id(place.path);
  return now.ok() && *now == place.id;
}

std::optional<Places::Missing> Places::missing() const {
  const Deadline deadline = Deadline::in(kPatience);
  while (true) {
    const auto gone = std::find_if(places_.begin(), places_.end(),
                                   [this](const Place& place) { return !is_there(place); });
    if (gone == places_.end()) return std::nullopt;
    if (!deadline.passed()) {
      pause(10ms);
      continue;
    }
    const bool directory = gone == places_.begin() || !has_directory();
    const std::string& path = directory ? places_.front().path : gone->path;
    return Missing{
        {ErrorKind::kDisk, "'" + path + "' is not the " + (directory ? "directory" : "file") +
                               " any more in which this run began: it was moved, "
                               "removed or replaced; put it back"},
        directory};
  }
}

}  // namespace lockstep
