#include "data/image/canvas.h"

#include <algorithm>
#include <cstring>

#include "data/image/resize.h"

namespace lockstep::data::image {
namespace {

// The part of [0, size) that [begin, begin + count) has.
struct Overlap {
  int begin, end;
};
Overlap overlap(int begin, int count, int size) {
  const int first = std::clamp(begin, 0, size);
  return {first, std::max(first, std::min(begin + count, size))};
}

// Which pixel of a line of `size` stands at `at`, as numpy.pad's modes have it.
int mirrored(int at, int size, Padding mode) {
  if (mode == Padding::kEdge) return std::clamp(at, 0, size - 1);
  const bool again = mode == Padding::kSymmetric;  // the border pixel appears twice
  const int period = again ? 2 * size : std::max(1, 2 * (size - 1));
  const int place = (at % period + period) % period;
  return place < size ? place : period - place - (again ? 1 : 0);
}

constexpr int kMarginStep = 8;  // values: one store or two

// The first or last `count` of a row and, so that no step has a length of its own, a few beside
// them.
void fill_first(float* row, int width, int count, float value) {
  if (width < kMarginStep) std::fill_n(row, count, value);
  for (int x = 0; x < count && width >= kMarginStep; x += kMarginStep)
    std::fill_n(row + std::min(x, width - kMarginStep), kMarginStep, value);
}
void fill_last(float* row, int width, int count, float value) {
  if (width < kMarginStep) std::fill_n(row + width - count, count, value);
  for (int x = 0; x < count && width >= kMarginStep; x += kMarginStep)
    std::fill_n(row + std::max(0, width - x - kMarginStep), kMarginStep, value);
}

}  // namespace

Canvas::Canvas(const PixelView& source, CanvasBuffers& buffers)
    : buffers_(buffers), source_(source), window_{0, 0, source.width, source.height} {}

bool Canvas::covers_source() const {
  return window_.left <= 0 && window_.top <= 0 && window_.left + window_.width >= source_.width &&
         window_.top + window_.height >= source_.height;
}

Region Canvas::in_source(const Region& part) const {
  const int left = flipped_ ? window_.width - part.left - part.width : part.left;
  return {window_.left + left, window_.top + part.top, part.width, part.height};
}

void Canvas::crop(const Region& part) {
  const bool inside = part.left >= 0 && part.top >= 0 && part.left + part.width <= width() &&
                      part.top + part.height <= height();
  // Beyond the picture is black; beyond the window may be source.
  if (!inside && (!covers_source() || fill_ != Colour{})) settle();
  window_ = in_source(part);
}

void Canvas::pad(const Margins& margins, Padding mode, const Colour& fill) {
  const Region grown{-margins.left, -margins.top, width() + margins.left + margins.right,
                     height() + margins.top + margins.bottom};
  if (mode == Padding::kConstant) {
    const bool plain = window_ == Region{0, 0, source_.width, source_.height};
    if (!plain && (!covers_source() || fill_ != fill)) settle();
    fill_ = fill;
    window_ = in_source(grown);
    return;
  }
  replace([&](const PixelView& in, Image& out) {
    out.resize(grown.width, grown.height);
    for (int y = 0; y < grown.height; ++y)
      for (int x = 0; x < grown.width; ++x)
        std::memcpy(out.row(y) + x * kChannels,
                    in.at(mirrored(x - margins.left, in.width, mode),
                          mirrored(y - margins.top, in.height, mode)),
                    kChannels);
  });
}

void Canvas::flip() { flipped_ = !flipped_; }

void Canvas::resize(int to_width, int to_height) {
  replace([&](const PixelView& in, Image& out) {
    resize_bilinear(in, to_width, to_height, buffers_.between, out);
  });
}

void Canvas::adopt(Image& image) {
  source_owner_ = &image;
  source_ = image.view();
  window_ = {0, 0, image.width(), image.height()};
  flipped_ = false;
  fill_ = {};
}

void Canvas::replace(const std::function<void(const PixelView&, Image&)>& change) {
  const PixelView in = pixels();
  Image& out = free_buffer();
  out.resize(in.width, in.height);
  change(in, out);
  adopt(out);
}

std::uint8_t Canvas::pixel(int x, int y, int channel) const {
  const int from_x = window_.left + (flipped_ ? window_.width - 1 - x : x);
  const int from_y = window_.top + y;
  if (from_x < 0 || from_y < 0 || from_x >= source_.width || from_y >= source_.height)
    return fill_[static_cast<std::size_t>(channel)];
  return source_.at(from_x, from_y)[channel * source_.plane];
}

void Canvas::settle() {
  Image& out = free_buffer();
  out.resize(width(), height());
  for (int y = 0; y < height(); ++y)
    for (int x = 0; x < width(); ++x)
      for (int c = 0; c < kChannels; ++c) out.row(y)[x * kChannels + c] = pixel(x, y, c);
  adopt(out);
}

PixelView Canvas::pixels() {
  const bool inside = window_.left >= 0 && window_.top >= 0 &&
                      window_.left + window_.width <= source_.width &&
                      window_.top + window_.height <= source_.height;
  const bool owned = source_owner_ != nullptr || buffers_.decoded.owns(source_.pixels);
  if (!inside || flipped_ || !owned) settle();
  PixelView view = source_;
  view.pixels = source_.at(window_.left, window_.top);
  view.width = window_.width;
  view.height = window_.height;
  return view;
}

// All that is no pixel; of rows that have pixels also some of those.
void Canvas::write_blank(const PixelValues& values, const Ends& ends, float* out) const {
  const auto width = static_cast<std::size_t>(this->width());
  const std::size_t plane = width * static_cast<std::size_t>(height());
  const int end = ends.above + ends.rows;
  const auto lines = static_cast<std::size_t>(end);
  for (int c = 0; c < kChannels; ++c, out += plane) {
    const float blank = values.at(c, fill_[static_cast<std::size_t>(c)]);
    std::fill_n(out, static_cast<std::size_t>(ends.above) * width, blank);
    std::fill(out + lines * width, out + plane, blank);
    for (auto line = static_cast<std::size_t>(ends.above); line < lines; ++line) {
      fill_first(out + line * width, this->width(), ends.left, blank);
      fill_last(out + line * width, this->width(), ends.right, blank);
    }
  }
}

void Canvas::write(const PixelValues& values, float* out) const {
  const auto row = static_cast<std::size_t>(width());
  const std::size_t plane = row * static_cast<std::size_t>(height());
  const Overlap x = overlap(window_.left, window_.width, source_.width);
  const Overlap y = overlap(window_.top, window_.height, source_.height);
  const int count = x.end - x.begin;
  Ends ends{height(), 0, 0, 0};  // no pixel at all
  if (count > 0 && y.end > y.begin) {
    const int left = flipped_ ? window_.left + window_.width - x.end : x.begin - window_.left;
    ends = {y.begin - window_.top, y.end - y.begin, left, width() - left - count};
  }
  write_blank(values, ends, out);  // which may reach into the pixels
  if (ends.rows > 0)
    values.write({source_.at(x.begin, y.begin), count, ends.rows, flipped_,
                  out + static_cast<std::size_t>(ends.above) * row + ends.left, row, plane},
                 source_);
}

}  // namespace lockstep::data::image
