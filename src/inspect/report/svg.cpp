#include "inspect/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "inspect/html.h"

namespace lockstep::inspect {
namespace {

constexpr double kWidth = 540, kHeight = 320;  // two beside each other on a desk
constexpr double kLeft = 72, kRight = 16, kTop = 14, kBottom = 48;
constexpr std::size_t kMostDots = 40;  // above it, points would hide the line

double step_for(double range, int count) {
  const double rough = range / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// From values to the picture's units.
struct Scale {
  double low, high, from, to;
  double operator()(double value) const {
    return high > low ? from + (value - low) / (high - low) * (to - from) : (from + to) / 2;
  }
};

std::string unit(double value) { return with_decimals(value, 1); }

std::string look(std::size_t colour) {
  const std::string name = "series s" + std::to_string(colour % kPageColours);
  const std::size_t round = colour / kPageColours % 3;
  return name + (round == 0 ? "" : round == 1 ? " dash" : " dot");
}

std::string line(double x1, double y1, double x2, double y2, const std::string& look_of) {
  return "<line class=\"" + look_of + "\" x1=\"" + unit(x1) + "\" y1=\"" + unit(y1) + "\" x2=\"" +
         unit(x2) + "\" y2=\"" + unit(y2) + "\"/>";
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& more = "") {
  return "<text x=\"" + unit(x) + "\" y=\"" + unit(y) + "\" text-anchor=\"" + anchor + "\"" + more +
         ">" + escaped(text) + "</text>";
}

std::string axes(const Scale& x, const Scale& y, const std::string& x_name,
                 const std::string& y_name) {
  const double right = kWidth - kRight, bottom = kHeight - kBottom;
  std::string out;
  const auto across = ticks(x.low, x.high, 8), up = ticks(y.low, y.high, 8);
  const auto across_labels = tick_labels(across), up_labels = tick_labels(up);
  for (std::size_t i = 0; i < up.size(); ++i)
    out += line(kLeft, y(up[i]), right, y(up[i]), "grid") +
           text_at(kLeft - 8, y(up[i]) + 4, "end", up_labels[i]) + "\n";
  for (std::size_t i = 0; i < across.size(); ++i)
    out += line(x(across[i]), bottom, x(across[i]), bottom + 5, "axis") +
           text_at(x(across[i]), bottom + 19, "middle", across_labels[i]) + "\n";
  out +=
      line(kLeft, bottom, right, bottom, "axis") + line(kLeft, kTop, kLeft, bottom, "axis") + "\n";
  out += text_at((kLeft + right) / 2, kHeight - 8, "middle", x_name);
  const double middle = (kTop + bottom) / 2;
  return out +
         text_at(14, middle, "middle", y_name,
                 " transform=\"rotate(-90 14 " + unit(middle) + ")\"") +
         "\n";
}

// What shows when it is pointed at.
std::string hover(const std::string& text) { return "<title>" + escaped(text) + "</title>"; }

std::string dot(const Series& series, double x, double y, const std::string& what) {
  return "<circle class=\"" + look(series.colour) + "\" cx=\"" + unit(x) + "\" cy=\"" + unit(y) +
         "\" r=\"2.5\">" + hover(series.name + ": " + what) + "</circle>";
}

std::string drawn(const Series& series, const Scale& x, const Scale& y, const std::string& x_name) {
  std::string points, dots;
  for (const auto& [at, value] : series.points) {
    points += (points.empty() ? "" : " ") + unit(x(at)) + "," + unit(y(value));
    if (series.points.size() <= kMostDots)
      dots += dot(series, x(at), y(value),
                  with_decimals(value, 4) + " at " + with_decimals(at, 2) + " " + x_name);
  }
  return "<g>" + hover(series.name) + "<polyline class=\"" + look(series.colour) + "\" points=\"" +
         points + "\"/>" + dots + "</g>\n";
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  // Of values that differ in their last bits there is nothing to read off, and no step to count in.
  if (!(high - low > std::max(std::fabs(low), std::fabs(high)) * 1e-12)) return {low};
  const double step = step_for(high - low, count);
  std::vector<double> values;
  // Counted, not added up: no error grows. What rounding puts just outside is taken in.
  for (double i = std::ceil(low / step - 1e-6); i * step <= high + step * 1e-6; ++i)
    values.push_back(i == 0 ? 0 : i * step);
  return values;
}

std::vector<std::string> tick_labels(std::span<const double> values) {
  double step = 1;
  if (values.size() > 1) step = values[1] - values[0];
  if (values.size() == 1 && values[0] != 0) step = std::fabs(values[0]) / 100;
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  std::vector<std::string> labels;
  for (const double value : values) labels.push_back(with_decimals(value, decimals));
  return labels;
}

std::string line_chart(std::span<const Series> series, const std::string& title,
                       const std::string& x, const std::string& y) {
  Range across, up;
  across.add(0);
  for (const Series& each : series)
    for (const auto& [at, value] : each.points) {
      across.add(at);
      up.add(value);
    }
  if (up.high < up.low) return "";
  const double room = (up.high - up.low) * 0.04;
  const Scale x_scale{across.low, across.high, kLeft, kWidth - kRight};
  const Scale y_scale{up.low - room, up.high + room, kHeight - kBottom, kTop};
  std::string out = "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 " + unit(kWidth) + " " +
                    unit(kHeight) + "\" aria-label=\"" + escaped(title) + "\">\n";
  out += axes(x_scale, y_scale, x, y);
  for (const Series& each : series)
    if (!each.points.empty()) out += drawn(each, x_scale, y_scale, x);
  return out + "</svg>\n";
}

std::string legend(std::span<const Series> series) {
  std::string out = "<ul class=\"legend\">";
  for (const Series& each : series)
    if (!each.points.empty())
      out += "<li><svg viewBox=\"0 0 28 12\" aria-hidden=\"true\">" +
             line(0, 6, 28, 6, look(each.colour)) + "</svg>" + escaped(each.name) + "</li>";
  return out + "</ul>\n";
}

}  // namespace lockstep::inspect
