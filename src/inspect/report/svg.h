// Line graphs as SVG, to stand in a page with html_page()'s style. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::inspect {

// About `count` round values (1, 2 or 5 times a power of ten apart) that lie within [low, high];
// low == high: that one.
std::vector<double> ticks(double low, double high, int count);
// All with the decimals that tell them apart.
std::vector<std::string> tick_labels(std::span<const double> values);

struct Series {
  std::string name;
  std::size_t colour = 0;                         // the same in every graph of a page
  std::vector<std::pair<double, double>> points;  // finite, by x
};

// <svg>; axes named `x` and `y`, which are text. x begins at 0. Series without points are left out.
std::string line_chart(std::span<const Series> series, const std::string& title,
                       const std::string& x, const std::string& y);
// <ul>: which line is whose.
std::string legend(std::span<const Series> series);

}  // namespace lockstep::inspect
