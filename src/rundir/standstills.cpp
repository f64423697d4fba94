#include "rundir/standstills.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace lockstep::rundir {
namespace {

constexpr std::uint64_t kMostStandstillBytes = 4096;
constexpr double kMostSeconds = 1000 * 366 * 86400.0;

std::string standstill_file(const std::string& run_dir) { return run_dir + "/standstills.json"; }

std::optional<Standstill> standstill_of(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto phase = json.value("phase", nlohmann::json());
  const auto longest = json.value("longest_s", nlohmann::json());
  const auto cut_short = json.value("cut_short_s", nlohmann::json());
  if (!phase.is_string() || !longest.is_number() || !cut_short.is_number()) return std::nullopt;
  const Standstill read{phase, longest, cut_short};
  const auto possible = [](double seconds) { return seconds >= 0 && seconds <= kMostSeconds; };
  if (!possible(read.longest_s) || !possible(read.cut_short_s)) return std::nullopt;
  return read;
}

}  // namespace

Status write_standstills(Env& env, const std::string& run_dir,
                         const std::vector<Standstill>& standstills) {
  auto json = nlohmann::ordered_json::array();
  for (const Standstill& one : standstills)
    json.push_back(
        {{"phase", one.phase}, {"longest_s", one.longest_s}, {"cut_short_s", one.cut_short_s}});
  return write_atomically(env, standstill_file(run_dir), json_text(json) + "\n");
}

Result<std::vector<Standstill>> read_standstills(Env& env, const std::string& run_dir) {
  const std::string path = standstill_file(run_dir);
  std::vector<Standstill> standstills;
  if (!env.exists(path)) return standstills;
  LOCKSTEP_ASSIGN(const std::string text, env.read(path, kMostStandstillBytes));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  bool good = json.is_array();
  for (const auto& item : json) {
    const auto one = standstill_of(item);
    good = good && one.has_value();
    if (one) standstills.push_back(*one);
  }
  if (!good)
    return Error{ErrorKind::kBadData, "'" + path +
                                          "' does not say how long workers have stood still; "
                                          "without the file the launcher learns it anew"};
  return standstills;
}

}  // namespace lockstep::rundir
