// A report as a page: the table, and losses against minutes of run time, or against epochs where a
// run has no times.
#include <algorithm>
#include <functional>
#include <set>

#include "inspect/html.h"
#include "inspect/report/figures.h"
#include "inspect/report/formats.h"
#include "inspect/report/svg.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

std::string table_of(std::span<const Run> runs) {
  std::string html = "<div class=\"wide\">\n<table>\n<thead><tr><td></td>";
  for (const Run& run : runs)
    html += "<th scope=\"col\" title=\"" + escaped(run.path) + "\">" + escaped(run.name) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows_of(runs)) {
    html += "<tr><th scope=\"row\">" + escaped(row.label) + "</th>";
    for (const auto& cell : row.cells)
      html += cell ? "<td>" + escaped(*cell) + "</td>"
                   : "<td class=\"faint\" title=\"missing\">" + std::string(kMissing) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

enum class Axis { kMinutes, kEpochs };

using Curve = std::function<const std::vector<Point>&(const Run&)>;

Curve sum_named(const std::string& name) {
  return [name](const Run& run) -> const std::vector<Point>& {
    static const std::vector<Point> none;
    const auto found = run.sums.find(name);
    return found == run.sums.end() ? none : found->second;
  };
}

std::vector<Series> series_of(std::span<const Run> runs, const Curve& curve, Axis axis) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{runs[i].name, i, {}};
    for (const Point& point : curve(runs[i]))
      if (axis == Axis::kEpochs || point.minutes)
        series.points.emplace_back(axis == Axis::kEpochs ? point.epochs : *point.minutes,
                                   point.loss);
    all.push_back(std::move(series));
  }
  return all;
}

std::string graph(std::span<const Run> runs, const Curve& curve, Axis axis,
                  const std::string& what) {
  const auto series = series_of(runs, curve, axis);
  const std::string unit = axis == Axis::kMinutes ? "minutes" : "epochs";
  const std::string title = what + " against " + unit;
  const std::string chart = line_chart(series, title, unit, what);
  if (chart.empty()) return "";
  return "<figure>\n<figcaption>" + escaped(title) + "</figcaption>\n" + legend(series) + chart +
         "</figure>\n";
}

bool has_times(const Run& run) {
  const auto timed = [](const Point& point) { return point.minutes.has_value(); };
  return std::ranges::any_of(run.train, timed) || std::ranges::any_of(run.validation, timed);
}

// " of 2 h", where all that have one have the same.
std::string budget_of(std::span<const Run> runs) {
  std::optional<double> common;
  for (const Run& run : runs) {
    if (run.budget_s && common && *common != *run.budget_s) return "";
    if (run.budget_s) common = run.budget_s;
  }
  if (!common) return "";
  if (*common < 60) return " of " + number_text(*common) + " s";
  if (*common < 3600) return " of " + number_text(*common / 60) + " min";
  return " of " + number_text(*common / 3600) + " h";
}

}  // namespace

std::string report_html(std::span<const Run> runs) {
  std::string body = table_of(runs);
  body += "<p class=\"faint\">" + std::string(kMissing) +
          ": missing. Scaling efficiency: T1 / (N · TN) of mean epoch times. Epochs in the budget" +
          budget_of(runs) + ": begun in it.</p>\n";
  const bool all_timed = std::ranges::all_of(runs, has_times);
  std::set<std::string> names;  // of sums
  for (const Run& run : runs)
    for (const auto& [name, curve] : run.sums) names.insert(name);
  std::string graphs;
  for (const Axis axis : {Axis::kMinutes, Axis::kEpochs}) {
    if (axis == Axis::kEpochs && all_timed) continue;
    graphs += graph(runs, &Run::train, axis, "Train loss");
    graphs += graph(runs, &Run::validation, axis, "Validation loss");
    graphs += graph(runs, &Run::test, axis, "Test loss");
    for (const std::string& name : names) graphs += graph(runs, sum_named(name), axis, name);
  }
  std::string untimed;
  for (const Run& run : runs)
    if (!has_times(run) && !(run.train.empty() && run.validation.empty() && run.test.empty()))
      untimed += (untimed.empty() ? "" : ", ") + escaped(run.name);
  if (!graphs.empty()) body += "<h2>Graphs</h2>\n";
  if (!untimed.empty())
    body += "<p class=\"faint\">Without times, and so against epochs alone: " + untimed + ".</p>\n";
  return html_page(
      "Report of " + std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs"),
      body + (graphs.empty() ? "" : "<div class=\"graphs\">\n" + graphs + "</div>\n"));
}

}  // namespace lockstep::inspect
