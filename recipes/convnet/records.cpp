#include "records.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace convnet {
namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using nlohmann::json;

json parsed(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

// The option's value in config.toml; "" if it has none.
std::string option_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  const std::string start = name + "=\"";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(start) && line.ends_with('"'))
      return line.substr(start.size(), line.size() - start.size() - 1);
  return "";
}

}  // namespace

lockstep::Result<Losses> losses_of(const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  std::ifstream file(path);
  if (!file) return Error{ErrorKind::kBadData, "cannot read '" + path + "': is this a run?"};
  Losses losses;
  for (std::string text; std::getline(file, text);) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
      return Error{ErrorKind::kBadData, "'" + path + "' has a line that is not of a run"};
    const auto loss = line.find("loss"), samples = line.find("samples");
    if (loss == line.end() || !loss->is_number()) continue;  // an epoch's end; not a number
    StepLoss& step = losses[line["step"].get<std::int64_t>()];
    step.loss = loss->get<double>();
    if (samples != line.end() && samples->is_number_integer())
      step.samples = samples->get<std::int64_t>();
  }
  return losses;
}

lockstep::Result<Record> read_record(const std::string& folder) {
  Record record;
  record.folder = folder;
  const json manifest = parsed(folder + "/manifest.json");
  if (!manifest.is_object() || manifest.value("program", json()) != "convnet")
    return Error{ErrorKind::kBadData, "'" + folder + "' is not the directory of a convnet run"};
  record.mode = mode_named(option_in(folder + "/config.toml", "mode"));
  const char* const key = record.mode == Mode::kDataParallel ? "replicas" : "virtual_workers";
  if (const auto found = manifest.find(key); found != manifest.end() && found->is_string())
    record.workers = std::atoi(found->get<std::string>().c_str());
  if (const json result = parsed(folder + "/result.json"); result.is_object())
    if (const auto seconds = result.find("seconds");
        seconds != result.end() && seconds->is_number())
      record.seconds = seconds->get<double>();
  LOCKSTEP_ASSIGN(record.losses, losses_of(folder));
  return record;
}

}  // namespace convnet
