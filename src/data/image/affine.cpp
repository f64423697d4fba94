#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "data/image/operations.h"

namespace lockstep::data::image {
namespace {

void copy_pixel(const PixelView& in, int x, int y, std::uint8_t* to) {
  std::memcpy(to, in.at(x, y), kChannels);
}

// Pillow's COORD: the pixel that a coordinate falls into; -1 left of the first.
int coordinate(double v) { return v < 0.0 ? -1 : static_cast<int>(v); }

void blank(Image& out) { std::memset(out.data(), 0, out.bytes()); }

// Without shear each column comes from one column, and steps are summed up, as Pillow does.
void scale_only(const PixelView& in, const Affine& m, Image& out) {
  std::vector<int> columns(static_cast<std::size_t>(in.width));
  double x_in = m[2] + m[0] * 0.5;
  for (int& column : columns) {
    column = coordinate(x_in);
    x_in += m[0];
  }
  double y_in = m[5] + m[4] * 0.5;
  for (int y = 0; y < in.height; ++y, y_in += m[4]) {
    const int row = coordinate(y_in);
    if (row < 0 || row >= in.height) continue;
    for (int x = 0; x < in.width; ++x) {
      const int column = columns[static_cast<std::size_t>(x)];
      if (column >= 0 && column < in.width) copy_pixel(in, column, row, out.row(y) + x * kChannels);
    }
  }
}

// Coordinates as 16.16 fixed point; sums wrap around where nothing is looked up any more.
struct Fixed {
  std::uint32_t bits;
  static Fixed of(double v) {
    return {static_cast<std::uint32_t>(static_cast<std::int64_t>(std::floor(v * 65536.0 + 0.5)))};
  }
  void operator+=(Fixed step) { bits += step.bits; }
  int pixel() const { return static_cast<std::int32_t>(bits) >> 16; }
};
// For pictures so large that fixed point does not reach.
struct Floating {
  double value;
  static Floating of(double v) { return {v}; }
  void operator+=(Floating step) { value += step.value; }
  int pixel() const { return coordinate(value); }
};

template <class Number>
void walk(const PixelView& in, const Affine& m, Number x_start, Number y_start, Image& out) {
  for (int y = 0; y < in.height; ++y) {
    Number x_in = x_start;
    Number y_in = y_start;
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < in.width; ++x, to += kChannels) {
      const int column = x_in.pixel();
      const int row = y_in.pixel();
      if (column >= 0 && column < in.width && row >= 0 && row < in.height)
        copy_pixel(in, column, row, to);
      x_in += Number::of(m[0]);
      y_in += Number::of(m[3]);
    }
    x_start += Number::of(m[1]);
    y_start += Number::of(m[4]);
  }
}

bool fixed_reaches(const Affine& m, int x, int y) {
  constexpr double kReach = 32768.0;
  return std::abs(x * m[0] + y * m[1] + m[2]) < kReach &&
         std::abs(x * m[3] + y * m[4] + m[5]) < kReach;
}

// Python's round(v, 15).
double to_15_places(double v) {
  constexpr int kPlaces = 15;
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), v, std::chars_format::fixed, kPlaces);
  double rounded = 0;
  std::from_chars(text.data(), end.ptr, rounded);
  return rounded;
}

double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }
double in_degrees(double angle) { return angle * (180.0 / std::numbers::pi); }

// torchvision's _get_inverse_affine_matrix with angle 0 and scale 1.
Affine inverse_matrix(const Shift& centre, const Shift& shift, const Shift& shears) {
  const double sx = shears.x;
  const double sy = shears.y;
  const double a = std::cos(-sy) / std::cos(sy);
  const double b = -std::cos(-sy) * std::tan(sx) / std::cos(sy) - std::sin(0.0);
  const double c = std::sin(-sy) / std::cos(sy);
  const double d = -std::sin(-sy) * std::tan(sx) / std::cos(sy) + std::cos(0.0);
  Affine m = {d, -b, 0.0, -c, a, 0.0};
  m[2] += m[0] * (-centre.x - shift.x) + m[1] * (-centre.y - shift.y);
  m[5] += m[3] * (-centre.x - shift.x) + m[4] * (-centre.y - shift.y);
  m[2] += centre.x;
  m[5] += centre.y;
  return m;
}

}  // namespace

void transform(Canvas& canvas, const Affine& m) {
  canvas.replace([&](const PixelView& in, Image& out) {
    blank(out);
    if (m[1] == 0 && m[3] == 0) return scale_only(in, m, out);
    const double x = m[2] + m[0] * 0.5 + m[1] * 0.5;
    const double y = m[5] + m[3] * 0.5 + m[4] * 0.5;
    if (fixed_reaches(m, 0, 0) && fixed_reaches(m, in.width, in.height) &&
        fixed_reaches(m, 0, in.height) && fixed_reaches(m, in.width, 0))
      return walk(in, m, Fixed::of(x), Fixed::of(y), out);
    // The order of the sums differs there.
    walk(in, m, Floating::of(m[2] + m[1] * 0.5 + m[0] * 0.5),
         Floating::of(m[5] + m[4] * 0.5 + m[3] * 0.5), out);
  });
}

void rotate(Canvas& canvas, double degrees) {
  const double turn = std::fmod(std::fmod(degrees, 360.0) + 360.0, 360.0);
  if (turn == 0) return;
  const double back = -radians(turn);
  const double x = canvas.width() / 2.0;
  const double y = canvas.height() / 2.0;
  Affine m = {to_15_places(std::cos(back)),  to_15_places(std::sin(back)), 0.0,
              to_15_places(-std::sin(back)), to_15_places(std::cos(back)), 0.0};
  const double c = m[0] * -x + m[1] * -y + 0.0;
  const double f = m[3] * -x + m[4] * -y + 0.0;
  m[2] = c + x;
  m[5] = f + y;
  transform(canvas, m);
}

void shear(Canvas& canvas, const Shift& angles) {
  // By way of degrees, as torchvision's interface has it.
  const auto there_and_back = [](double angle) { return radians(in_degrees(angle)); };
  transform(canvas, inverse_matrix({}, {}, {there_and_back(angles.x), there_and_back(angles.y)}));
}

void translate(Canvas& canvas, const Shift& pixels) {
  transform(canvas, inverse_matrix({canvas.width() * 0.5, canvas.height() * 0.5}, pixels, {}));
}

}  // namespace lockstep::data::image
