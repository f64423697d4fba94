// How people write the ten digits: a few ways for each, as pen strokes.
#pragma once

#include <span>
#include <vector>

namespace lockstep::data {

struct Point {
  double x = 0, y = 0;  // x to the right, y down
};

struct Stroke {
  // Through the points as a Catmull-Rom spline, or straight from each to the next.
  bool curved = true;
  std::vector<Point> points;  // in a box of 100 x 100
};

using Glyph = std::vector<Stroke>;

// The ways of writing `digit` (0 to 9); at least three. Lives as long as the process.
const std::vector<Glyph>& ways_of_writing(int digit);

}  // namespace lockstep::data
