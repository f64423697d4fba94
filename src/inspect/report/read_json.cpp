#include <filesystem>
#include <nlohmann/json.hpp>

#include "inspect/files.h"
#include "inspect/report/keys.h"

namespace lockstep::inspect {
namespace {

using Parsed = nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

Error bad(const std::string& path, const std::string& what) {
  return {ErrorKind::kBadData, "'" + path + "': " + what};
}

constexpr const char* kNoPoint = "that is not [epochs, minutes or null, loss]";
constexpr std::string_view kRunSuffix = "-run";

std::string without(std::string_view suffix, std::string name) {
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

// [epochs, minutes or null, loss]
std::optional<Point> point_of(const Parsed& json) {
  if (!json.is_array() || json.size() != 3 || !json[0].is_number() || !json[2].is_number())
    return std::nullopt;
  if (!json[1].is_number() && !json[1].is_null()) return std::nullopt;
  Point point{json[0], std::nullopt, json[2]};
  if (json[1].is_number()) point.minutes = json[1].get<double>();
  return point;
}

Result<Run> run_of(const Parsed& json, const std::string& path) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    return bad(path, "a run is not an object with a \"name\"");
  Run run;
  run.name = without(kRunSuffix, json["name"].get<std::string>());
  run.path = path;
  for (const auto& [name, figure] : kFigureKeys) {
    const Parsed value = json.value(name, Parsed());
    if (value.is_null()) continue;
    if (!value.is_number())
      return bad(path, "run '" + run.name + "': \"" + name + "\" is no number");
    run.*figure = value.get<double>();
  }
  for (const auto& [name, curve] : kCurveKeys)
    for (const Parsed& item : json.value(name, Parsed::array())) {
      const auto point = point_of(item);
      if (!point)
        return bad(path, "run '" + run.name + "': \"" + name + "\" has a point " + kNoPoint);
      (run.*curve).push_back(*point);
    }
  const Parsed sums = json.value("sums", Parsed::object());
  if (!sums.is_object()) return bad(path, "run '" + run.name + "': \"sums\" is no object");
  for (const auto& [name, points] : sums.items())
    for (const Parsed& item : points) {
      const auto point = point_of(item);
      if (!point) return bad(path, "run '" + run.name + "': \"sums\" has a point " + kNoPoint);
      run.sums[name].push_back(*point);
    }
  return run;
}

}  // namespace

Result<std::vector<Run>> read_runs_json(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, env.read(path, kMostBytes));
  const Parsed json = Parsed::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array())
    return bad(path, "not JSON of the form {\"runs\": [...]}");
  std::vector<Run> runs;
  for (const Parsed& item : json["runs"]) {
    LOCKSTEP_ASSIGN(Run run, run_of(item, path));
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<std::vector<Run>> read_runs(Env& env, const std::string& path) {
  constexpr std::string_view kMetrics = "_metrics";
  if (path.ends_with(".json")) return read_runs_json(env, path);
  std::error_code error;
  std::filesystem::path stem(path);
  if (!stem.has_filename()) stem = stem.parent_path();
  Run run;
  if (const auto hidden = hidden_at({path, path + "/metrics.jsonl"})) return *hidden;
  if (std::filesystem::is_directory(path, error)) {
    if (!env.exists(path + "/metrics.jsonl"))
      return Error{ErrorKind::kBadData,
                   "'" + path +
                       "' is no run directory: it has no metrics.jsonl; give a run directory, a "
                       ".pt file of the tutorial's trainer, or a .json file of runs"};
    LOCKSTEP_ASSIGN(run, read_run_directory(env, path));
    run.name = without(kRunSuffix, stem.filename().string());
    run.directory = path;
  } else if (!env.exists(path)) {
    return Error{ErrorKind::kBadData, "'" + path + "' does not exist"};
  } else {
    LOCKSTEP_ASSIGN(run, read_training_save(env, path));
    run.name = without(kMetrics, stem.stem().string());
  }
  return std::vector{std::move(run)};
}

}  // namespace lockstep::inspect
