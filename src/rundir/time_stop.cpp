#include "rundir/time_stop.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace lockstep::rundir {
namespace {

constexpr std::uint64_t kMostStopBytes = 4096;

std::string stop_file(const std::string& run_dir) { return run_dir + "/stop.json"; }

}  // namespace

Status write_time_stop(Env& env, const std::string& run_dir, const TimeStop& stop) {
  const nlohmann::ordered_json json{
      {"stop_after_step", stop.stop_after_step}, {"limit_s", stop.limit_s}, {"run_s", stop.run_s}};
  return write_atomically(env, stop_file(run_dir), json_text(json) + "\n");
}

Result<std::optional<TimeStop>> read_time_stop(Env& env, const std::string& run_dir) {
  const std::string path = stop_file(run_dir);
  if (!env.exists(path)) return std::optional<TimeStop>();
  LOCKSTEP_ASSIGN(const std::string text, env.read(path, kMostStopBytes));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* key) {
    return json.is_object() ? json.value(key, nlohmann::json()) : nlohmann::json();
  };
  const auto step = number("stop_after_step"), limit = number("limit_s"), ran = number("run_s");
  if (!step.is_number_unsigned() || step == 0 || !limit.is_number() || !ran.is_number())
    return Error{ErrorKind::kBadData,
                 "'" + path + "' does not say after which step the run stopped: '" + text +
                     "'; without the file the run goes on from its newest checkpoint"};
  return std::optional(TimeStop{step, limit, ran});
}

Status remove_time_stop(Env& env, const std::string& run_dir) {
  return env.remove_all(stop_file(run_dir));
}

}  // namespace lockstep::rundir
