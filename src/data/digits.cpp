#include "data/digits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/glyphs.h"
#include "data/random.h"

namespace lockstep::data {
namespace {

constexpr std::size_t index(int place) { return static_cast<std::size_t>(place); }

constexpr int kSide = static_cast<int>(kDigitSide);
using Canvas = std::array<double, static_cast<std::size_t>(kSide) * kSide>;  // 0 paper, 1 ink

// How far hands and pens differ. Chosen so that the ConvNet of the quickstart (Adam, 1e-3, 300
// pictures a step) needs most of an epoch for 95 %.
// deviation of each control point, in glyph units (1/100 of its height)
constexpr double kPointJitter = 4.0;
constexpr double kTurn = 0.11;   // deviation of the tangent of half the angle: 12 degrees
constexpr double kSlant = 0.22;  // deviation of the shear
constexpr double kShift = 1.4;   // deviation, pixels
constexpr double kWobble = 0.8;  // deviation of the elastic field at its knots, pixels
constexpr double kHeight[2] = {15.0, 22.0};
constexpr double kWidthToHeight[2] = {0.65, 1.1};
constexpr double kPenRadius[2] = {0.65, 1.6};
constexpr double kPressure[2] = {0.75, 1.25};  // factor of the radius, from point to point
constexpr double kBlur = 0.22;
constexpr double kInk[2] = {0.55, 1.0};
constexpr double kNoise[2] = {0.0, 0.14};
constexpr std::uint32_t kSpecks = 2;  // at most

double pick(KeyedRandom& random, const double (&range)[2]) {
  return random.uniform(range[0], range[1]);
}

struct Dab {
  Point at;
  double radius = 0;
};

Point spline(const std::vector<Point>& p, std::size_t i, double t) {
  const Point a = p[i == 0 ? 0 : i - 1], b = p[i], c = p[i + 1],
              d = p[std::min(i + 2, p.size() - 1)];
  const auto mix = [t](double w, double x, double y, double z) {
    return 0.5 *
           (2 * x + t * (y - w + t * (2 * w - 5 * x + 4 * y - z + t * (3 * x - 3 * y + z - w))));
  };
  return {mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)};
}

std::vector<Point> flattened(const Stroke& stroke) {
  constexpr int kPieces = 5;
  if (!stroke.curved) return stroke.points;
  std::vector<Point> line = {stroke.points.front()};
  for (std::size_t i = 0; i + 1 < stroke.points.size(); ++i)
    for (int piece = 1; piece <= kPieces; ++piece)
      line.push_back(spline(stroke.points, i, static_cast<double>(piece) / kPieces));
  return line;
}

// From glyph units to pixels: a hand's slant, turn, size and place, and a smooth wobble over the
// picture.
class Hand {
 public:
  explicit Hand(KeyedRandom& random) {
    const double t = kTurn * random.bell();
    const double cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
    const double slant = kSlant * random.bell();
    const double height = pick(random, kHeight), width = height * pick(random, kWidthToHeight);
    xx_ = width * cosine / 100;
    xy_ = height * (slant * cosine - sine) / 100;
    yx_ = width * sine / 100;
    yy_ = height * (slant * sine + cosine) / 100;
    shift_ = {kSide / 2.0 + kShift * random.bell(), kSide / 2.0 + kShift * random.bell()};
    for (Point& knot : field_) knot = {kWobble * random.bell(), kWobble * random.bell()};
  }

  Point place(Point p) const {
    const double x = p.x - 50, y = p.y - 50;
    const Point at = {xx_ * x + xy_ * y + shift_.x, yx_ * x + yy_ * y + shift_.y};
    const Point push = wobble(at);
    return {at.x + push.x, at.y + push.y};
  }

 private:
  static constexpr int kKnots = 4;

  Point wobble(Point at) const {
    const double u = std::clamp(at.x / kSide, 0.0, 0.999) * (kKnots - 1);
    const double v = std::clamp(at.y / kSide, 0.0, 0.999) * (kKnots - 1);
    const auto i = static_cast<std::size_t>(u), j = static_cast<std::size_t>(v);
    const double fu = u - static_cast<double>(i), fv = v - static_cast<double>(j);
    const Point &a = field_[j * kKnots + i], &b = field_[j * kKnots + i + 1];
    const Point &c = field_[(j + 1) * kKnots + i], &d = field_[(j + 1) * kKnots + i + 1];
    const auto blend = [&](double p, double q, double r, double s) {
      return (p * (1 - fu) + q * fu) * (1 - fv) + (r * (1 - fu) + s * fu) * fv;
    };
    return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
  }

  double xx_ = 0, xy_ = 0, yx_ = 0, yy_ = 0;
  Point shift_;
  std::array<Point, static_cast<std::size_t>(kKnots) * kKnots> field_;
};

// The first and last pixel whose centre may be within `reach` of [low, high].
std::pair<int, int> pixels_near(double low, double high, double reach) {
  const auto clip = [](double v) { return static_cast<int>(std::clamp(v, 0.0, kSide - 1.0)); };
  return {clip(low - reach - 0.5), clip(high + reach + 0.5)};
}

// A straight piece of a stroke, its radius going from one end's to the other's, with an edge one
// pixel soft.
void draw_line(Canvas& canvas, const Dab& a, const Dab& b) {
  const double reach = std::max(a.radius, b.radius) + 0.5;
  const auto [left, right] = pixels_near(std::min(a.at.x, b.at.x), std::max(a.at.x, b.at.x), reach);
  const auto [top, bottom] = pixels_near(std::min(a.at.y, b.at.y), std::max(a.at.y, b.at.y), reach);
  const double dx = b.at.x - a.at.x, dy = b.at.y - a.at.y;
  const double length2 = dx * dx + dy * dy + 1e-9;
  for (int row = top; row <= bottom; ++row) {
    for (int column = left; column <= right; ++column) {
      const double px = column + 0.5 - a.at.x, py = row + 0.5 - a.at.y;
      const double t = std::clamp((px * dx + py * dy) / length2, 0.0, 1.0);
      const double ex = px - t * dx, ey = py - t * dy;
      const double edge = a.radius + t * (b.radius - a.radius) + 0.5;
      const double distance2 = ex * ex + ey * ey;
      if (distance2 >= edge * edge) continue;
      double& pixel = canvas[index(row * kSide + column)];
      pixel = std::max(pixel, std::min(edge - std::sqrt(distance2), 1.0));
    }
  }
}

void draw_glyph(Canvas& canvas, const Glyph& glyph, KeyedRandom& random) {
  const Hand hand(random);
  const double radius = pick(random, kPenRadius);
  // Strokes that meet in the glyph move together at that point more often than not; a gap now and
  // then is a hand's too.
  for (Stroke stroke : glyph) {
    for (Point& p : stroke.points) {
      p.x += kPointJitter * random.bell();
      p.y += kPointJitter * random.bell();
    }
    Dab last;
    bool first = true;
    for (const Point& p : flattened(stroke)) {
      const Dab dab{hand.place(p), radius * pick(random, kPressure)};
      if (!first) draw_line(canvas, last, dab);
      last = dab;
      first = false;
    }
  }
}

void add_specks(Canvas& canvas, KeyedRandom& random) {
  for (std::uint32_t n = random.below(kSpecks + 1); n > 0; --n) {
    const Point at = {random.uniform(0, kSide), random.uniform(0, kSide)};
    const Point to = {at.x + random.bell() * 2, at.y + random.bell() * 2};
    // One draw a statement: the order in which a call's arguments are evaluated is the compiler's.
    const Dab start{at, random.uniform(0.3, 0.8)};
    const Dab end{to, random.uniform(0.3, 0.8)};
    draw_line(canvas, start, end);
  }
}

void blur_along(Canvas& canvas, double side, int stride, int other) {
  for (int line = 0; line < kSide; ++line) {
    double before = 0;
    for (int i = 0; i < kSide; ++i) {
      double& pixel = canvas[index(line * other + i * stride)];
      const double after = i + 1 < kSide ? canvas[index(line * other + (i + 1) * stride)] : 0;
      const double here = pixel;
      pixel = here * (1 - 2 * side) + (before + after) * side;
      before = here;
    }
  }
}

}  // namespace

Digit draw_digit(std::uint64_t index) {
  KeyedRandom random(index);
  Digit digit;
  digit.label = static_cast<std::uint8_t>(random.below(10));
  const std::vector<Glyph>& ways = ways_of_writing(digit.label);
  Canvas canvas{};
  draw_glyph(canvas, ways[random.below(static_cast<std::uint32_t>(ways.size()))], random);
  add_specks(canvas, random);
  const double blur = random.uniform(0, kBlur);
  blur_along(canvas, blur, 1, kSide);
  blur_along(canvas, blur, kSide, 1);
  const double ink = pick(random, kInk), noise = pick(random, kNoise);
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    const double value = 255 * (ink * canvas[i] + noise * random.bell()) + 0.5;
    digit.pixels[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
  }
  return digit;
}

}  // namespace lockstep::data
