#include "inspect/report/formats.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "inspect/report/figures.h"
#include "inspect/report/keys.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

using Json = nlohmann::ordered_json;

// What derive() adds, or knows better.
struct DerivedKey {
  const char* name;
  std::optional<double> Derived::*figure;
};
constexpr std::array<DerivedKey, 2> kDerivedKeys{
    {{"epochs_in_budget", &Derived::epochs_in_budget},
     {"scaling_efficiency", &Derived::scaling_efficiency}}};

Json json_of(const std::optional<double>& number) {
  if (!number || !std::isfinite(*number)) return nullptr;
  if (*number == std::floor(*number) && std::fabs(*number) < 1e15)
    return static_cast<std::int64_t>(*number);
  return *number;
}

Json json_of(const std::vector<Point>& curve) {
  Json json = Json::array();
  for (const Point& point : curve)
    json.push_back({json_of(point.epochs), json_of(point.minutes), point.loss});
  return json;
}

std::string cell_of(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? shortest(*number) : "";
}

}  // namespace

std::string csv_cell(const std::string& content) {
  std::string text = printable(content);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("\\|`*_<>[]&").find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string report_text(std::span<const Run> runs) {
  std::vector<std::vector<std::string>> table{{""}};
  std::vector<std::size_t> right;
  for (const Run& run : runs) {
    table[0].push_back(run.name);
    right.push_back(table[0].size() - 1);
  }
  for (const Row& row : rows_of(runs)) {
    table.push_back({row.label});
    for (const auto& cell : row.cells) table.back().push_back(cell.value_or(std::string(kMissing)));
  }
  return text_table(table, right);
}

std::string report_markdown(std::span<const Run> runs) {
  std::string head = "| |", rule = "|---|";
  for (const Run& run : runs) {
    head += " " + markdown_cell(run.name) + " |";
    rule += "---:|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const Row& row : rows_of(runs)) {
    text += "| " + row.label + " |";
    for (const auto& cell : row.cells) text += " " + cell.value_or(std::string(kMissing)) + " |";
    text += "\n";
  }
  return text;
}

std::string report_csv(std::span<const Run> runs) {
  std::string text = "name";
  for (const auto& [name, figure] : kFigureKeys) text += std::string(",") + name;
  for (const auto& [name, figure] : kDerivedKeys) text += std::string(",") + name;
  text += "\n";
  const auto derived = derive(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run run = runs[i];
    run.steps_per_epoch = derived[i].steps_per_epoch;
    text += csv_cell(run.name);
    for (const auto& [name, figure] : kFigureKeys) text += "," + cell_of(run.*figure);
    for (const auto& [name, figure] : kDerivedKeys) text += "," + cell_of(derived[i].*figure);
    text += "\n";
  }
  return text;
}

std::string report_json(std::span<const Run> runs) {
  Json list = Json::array();
  const auto derived = derive(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run run = runs[i];
    run.steps_per_epoch = derived[i].steps_per_epoch;
    Json json{{"name", run.name}, {"path", run.path}};
    for (const auto& [name, figure] : kFigureKeys) json[name] = json_of(run.*figure);
    for (const auto& [name, figure] : kDerivedKeys) json[name] = json_of(derived[i].*figure);
    for (const auto& [name, curve] : kCurveKeys) json[name] = json_of(run.*curve);
    for (const auto& [name, curve] : run.sums) json["sums"][printable(name)] = json_of(curve);
    list.push_back(std::move(json));
  }
  const Json json{{"runs", std::move(list)}};
  return json_text(json, 1) + "\n";
}

}  // namespace lockstep::inspect
