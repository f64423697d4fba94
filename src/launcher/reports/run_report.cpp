#include "launcher/reports/run_report.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>

#include "base/json.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "rundir/manifest.h"
#include "rundir/names.h"

namespace lockstep::launcher {
namespace {

using ReportJson = nlohmann::ordered_json;

constexpr std::uint64_t kFileLimitBytes = 1 << 20;
constexpr std::uint64_t kTailBytes = 64 << 10;  // some 300 lines: an evaluation is among them

ReportJson object_in(Env& env, const std::string& path) {
  const auto text = env.read(path, kFileLimitBytes);
  ReportJson json = text.ok() ? ReportJson::parse(*text, nullptr, false) : ReportJson();
  return json.is_object() ? json : ReportJson::object();
}

void copy(const ReportJson& from, const char* key, ReportJson& to, const char* name) {
  if (from.contains(key) && from[key].is_primitive()) to[name] = from[key];
}

// Of each step; 1 where the manifest says nothing else.
std::uint64_t updates_per_step(Env& env, const std::string& run_dir) {
  const auto manifest = rundir::read_manifest(env, run_dir);
  if (!manifest.ok() || !*manifest) return 1;
  return number_of<std::uint64_t>((*manifest)->value("updates_per_step")).value_or(1);
}

// The last lines of the metrics: how far it is, and the newest loss and evaluation. A step counts
// with its last update.
void add_metrics(Env& env, const std::string& run_dir, ReportJson& report) {
  const std::uint64_t last_update = updates_per_step(env, run_dir) - 1;
  const auto file = env.open_read(run_dir + "/metrics.jsonl");
  if (!file.ok()) return;
  const std::uint64_t size = (*file)->size(), begin = size > kTailBytes ? size - kTailBytes : 0;
  std::string tail(static_cast<std::size_t>(size - begin), '\0');
  if (!(*file)->read_at(begin, std::as_writable_bytes(std::span(tail))).ok()) return;
  std::istringstream lines(tail.substr(0, tail.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    const ReportJson entry = ReportJson::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("txn") || !entry["txn"].is_number_unsigned())
      continue;  // the first one is cut
    report["committed"] = entry["txn"].get<std::uint64_t>() + 1;
    copy(entry, "epoch", report, "epoch");
    for (const char* key :
         {"loss_mean", "test_loss", "test_accuracy", "valid_loss", "valid_accuracy"})
      copy(entry, key, report, key);
    if (!entry.contains("loss_mean") || !entry.contains("step")) continue;
    if (!entry["step"].is_number_unsigned()) continue;
    const ReportJson update = entry.value("update", ReportJson(0U));
    const bool complete = update.is_number_unsigned() && update >= last_update;
    report["steps"] = entry["step"].get<std::uint64_t>() + (complete ? 1 : 0);
  }
}

void add_incidents(Env& env, const std::string& folder, ReportJson& report) {
  const auto names = env.list(folder);
  report["incidents"] = names.ok() ? names->size() : 0;
  if (!names.ok() || names->empty()) return;
  const ReportJson newest = object_in(env, folder + "/" + names->back());
  std::string victims;
  for (const ReportJson& victim : newest.value("victims", ReportJson::array()))
    if (victim.is_object() && victim.contains("rank") && victim.contains("cause") &&
        victim["cause"].is_string())
      victims += (victims.empty() ? "" : "; ") + ("rank " + json_text(victim["rank"]) + " ") +
                 victim["cause"].get<std::string>();
  if (!victims.empty()) report["last_incident"] = victims;
}

void add_checkpoint(Env& env, const std::string& folder, ReportJson& report) {
  const auto names = env.list(folder);
  std::optional<std::uint64_t> newest;
  if (names.ok())
    for (const std::string& name : *names) newest = std::max(newest, rundir::step_of(name));
  if (newest) report["checkpoint"] = folder + "/" + rundir::step_name(*newest);
}

bool is_held(const std::string& run_dir) {
  const UniqueFd directory(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory && ::flock(directory.get(), LOCK_SH | LOCK_NB) != 0;
}

std::string text_of(const ReportJson& json, const char* key) {
  if (!json.contains(key)) return "";
  return json[key].is_string() ? json[key].get<std::string>() : json_text(json[key]);
}

}  // namespace

Result<std::string> run_report(Env& env, const std::string& run_dir) {
  if (!rundir::has_manifest(env, run_dir))
    return Error{ErrorKind::kUnavailable, "'" + run_dir + "' holds no run (no manifest.json)"};
  const auto manifest = rundir::read_manifest(env, run_dir);
  const ReportJson result = object_in(env, run_dir + "/result.json");
  ReportJson report{{"schema", 1}, {"state", "stopped"}};
  if (manifest.ok() && *manifest)
    for (const char* key : {"program", rundir::kVirtualWorkersKey})
      if (const std::string value = (*manifest)->value(key); !value.empty()) report[key] = value;
  report["committed"] = 0;
  report["steps"] = 0;
  add_metrics(env, run_dir, report);
  add_incidents(env, run_dir + "/incidents", report);
  add_checkpoint(env, run_dir + "/checkpoints", report);
  // A run that goes on after its end (more epochs) has an older result until it ends again; records
  // that tell of fewer steps than the result are damaged.
  const ReportJson steps = result.value("steps", ReportJson());
  if (result.contains("weights_sha256") && steps.is_number() && steps >= report["steps"]) {
    report["state"] = "finished";
    copy(result, "weights_sha256", report, "weights_sha256");
    copy(result, "seconds", report, "seconds");
  }
  if (is_held(run_dir)) report["state"] = "held";
  report["members"] = ReportJson::array();
  return json_text(report);
}

std::string with_metrics(Env& env, const std::string& run_dir, const std::string& status) {
  ReportJson report = ReportJson::parse(status, nullptr, false);
  if (!report.is_object()) return status;
  ReportJson metrics = ReportJson::object();
  add_metrics(env, run_dir, metrics);
  metrics.erase("committed");  // the launcher knows it better
  report.update(metrics);
  return json_text(report);
}

std::string readable_report(const std::string& json) {
  const ReportJson report = ReportJson::parse(json, nullptr, false);
  if (!report.is_object()) return json + "\n";
  const std::string state = text_of(report, "state");
  std::string text = state + ": " + text_of(report, "steps") + " steps";
  const auto add = [&](const char* before, const char* key, const char* after = "") {
    if (report.contains(key) && !report[key].is_null())
      text += before + text_of(report, key) + after;
  };
  add(", ", "virtual_workers", " virtual workers");
  add("; incidents: ", "incidents");
  add("\nlast loss ", "loss_mean", " (mean of the last update)");
  add("\ntest loss ", "test_loss");
  add(", accuracy ", "test_accuracy");
  add("\nvalidation loss ", "valid_loss");
  add(", accuracy ", "valid_accuracy");
  add("\nlast incident: ", "last_incident");
  add("\nnewest checkpoint ", "checkpoint");
  add("\nweights sha256 ", "weights_sha256");
  if (state == "stopped")
    text += "\nno launcher is running; the same command goes on from the newest checkpoint" +
            std::string(report.contains("checkpoint") ? "" : ", or, as there is none, begins anew");
  if (state == "held") text += "\na process without a launcher has the directory";
  return text + "\n";
}

}  // namespace lockstep::launcher
