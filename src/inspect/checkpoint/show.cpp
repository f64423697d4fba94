// `lockstep checkpoint show`.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/hash.h"
#include "checkpoint/module_in.h"
#include "inspect/arguments.h"
#include "inspect/checkpoint/bundle.h"
#include "inspect/checkpoint/elements.h"
#include "inspect/checkpoint/json.h"
#include "inspect/checkpoint/verbs.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

struct Shown {
  std::vector<std::optional<double>> sums;  // by tensor; none: of a kind that is not read
  std::uint64_t values = 0, bytes = 0;
  std::size_t hashed = 0;  // leaves of a .pt file have no bytes
  std::string sha256;  // as the `weights sha256` line of a run: by name, each name and its bytes
};

std::string shape_text(const checkpoint::TensorInfo& info) {
  std::string text;
  for (const std::uint64_t extent : info.shape)
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

Result<Shown> read_all(const Part& part) {
  std::vector<std::size_t> order(part.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return part.tensors[i].info.name; });
  Shown shown;
  shown.sums.resize(order.size());
  Sha256 hash;
  for (const std::size_t i : order) {
    const Tensor& tensor = part.tensors[i];
    LOCKSTEP_ASSIGN(const std::uint64_t count, element_count(tensor.info));
    shown.values += count;
    if (!tensor.load) continue;
    LOCKSTEP_ASSIGN(const Bytes bytes, tensor.load());
    if (tensor.info.readable()) shown.sums[i] = sum_of(tensor.info.dtype, bytes);
    shown.bytes += bytes.size();
    ++shown.hashed;
    hash.update(tensor.info.name);
    hash.update(bytes);
  }
  shown.sha256 = hash.hex();
  return shown;
}

// JSON has no word for what is not finite.
Json number_json(std::optional<double> number) {
  return number && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

Json json_of(const Part& part, const Shown& shown) {
  Json tensors = Json::array();
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const auto& info = part.tensors[i].info;
    tensors.push_back({{"name", info.name},
                       {"dtype", info.dtype_name()},
                       {"shape", info.shape},
                       {"read", info.readable()},
                       {"sum", number_json(shown.sums[i])}});
  }
  return {{"part", part.name},
          {"values", shown.values},
          {"bytes", shown.bytes},
          {"sha256", shown.sha256},
          {"tensors", std::move(tensors)}};
}

Json head_json(const Bundle& bundle) {
  Json json{{"path", bundle.path}};
  if (bundle.manifest) {
    const auto& manifest = *bundle.manifest;
    json["cursor"] = cursor_json(manifest.cursor);
    json["virtual_workers"] = manifest.virtual_workers;
    json["generation"] = manifest.generation;
    json["run_identity"] = manifest.run_identity;
    json["modules"] = Json::array();
    for (const checkpoint::ModuleEntry& module : manifest.modules)
      json["modules"].push_back(
          {{"name", module.name}, {"prefix", module.prefix}, {"tensors", module.tensors}});
    json["state"] = Json::parse(bundle.state, nullptr, false);
    if (json["state"].is_discarded()) json["state"] = bundle.state;
    json["skipped"] = bundle.skipped;
  }
  if (!bundle.values.empty()) json["values"] = Json::object();
  for (const auto& [name, value] : bundle.values) json["values"][name] = value;
  json["parts"] = Json::array();
  return json;
}

std::string text_of(const Part& part, const Shown& shown) {
  const std::string title = part.name.empty() ? "" : part.name + ": ";
  std::string text = "\n" + title + counted(part.tensors.size(), "tensor") + ", " +
                     counted(shown.values, "value") + ", " + bytes_text(shown.bytes) + ", sha256 " +
                     shown.sha256;
  if (shown.hashed < part.tensors.size())
    text += " (of the " + std::to_string(shown.hashed) + " that are read)";
  text += "\n";
  std::vector<std::vector<std::string>> rows{{"  name", "dtype", "shape", "sum"}};
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const auto& info = part.tensors[i].info;
    const auto& sum = shown.sums[i];
    rows.push_back(
        {"  " + info.name, info.dtype_name(), shape_text(info), sum ? number_text(*sum) : "-"});
  }
  return text + text_table(rows, std::array<std::size_t, 1>{3});
}

std::string head_text(const Bundle& bundle) {
  std::string text = bundle.path + "\n";
  if (bundle.manifest) {
    const auto& manifest = *bundle.manifest;
    text += "goes on at transaction " + std::to_string(manifest.cursor.txn) + " (epoch " +
            std::to_string(manifest.cursor.epoch) + ", step " +
            std::to_string(manifest.cursor.step) + "), " +
            counted(manifest.virtual_workers, "virtual worker") + ", generation " +
            std::to_string(manifest.generation) + "\nrun " + manifest.run_identity + "\n";
    if (!manifest.modules.empty())
      text += counted(manifest.modules.size(), "module") + ": " +
              checkpoint::modules_in_words(manifest) + "\n";
    if (bundle.state.size() > 2) text += "state " + bundle.state + "\n";
  }
  for (const std::string& skipped : bundle.skipped) text += "skipped " + skipped + "\n";
  for (const auto& [name, value] : bundle.values) text += name + " = " + value + "\n";
  return text;
}

}  // namespace

Result<Answer> show_checkpoint(Env& env, Words words) {
  const Syntax syntax{"lockstep checkpoint show DIR_OR_FILE [--json]", {"--json"}, {}, 1, 1};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  LOCKSTEP_ASSIGN(const Bundle bundle, open_bundle(env, arguments.paths.front()));
  Json json = head_json(bundle);
  std::string text = head_text(bundle);
  for (const Part& part : bundle.parts) {
    LOCKSTEP_ASSIGN(const Shown shown, read_all(part));
    json["parts"].push_back(json_of(part, shown));
    text += text_of(part, shown);
  }
  if (!arguments.has("--json")) return Answer{text};
  return Answer{json_lines(json)};
}

}  // namespace lockstep::inspect
