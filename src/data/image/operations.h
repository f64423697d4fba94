// Pillow's operations on a whole picture, as torchvision's AutoAugment uses them (PIL.ImageOps,
// PIL.ImageEnhance, Image.transform with nearest neighbour and black outside).
//
// Threads: one canvas at a time.
#pragma once

#include <array>

#include "data/image/canvas.h"

namespace lockstep::data::image {

void invert(Canvas& canvas);
void posterize(Canvas& canvas, int bits);               // keeps the top `bits` of 8
void solarize(Canvas& canvas, double threshold);        // inverts what is not below
void autocontrast(Canvas& canvas);                      // each channel stretched to 0..255
void equalize(Canvas& canvas);                          // each channel's histogram made flat
void adjust_brightness(Canvas& canvas, double factor);  // 0: black, 1: as it is
void adjust_contrast(Canvas& canvas, double factor);    // 0: the mean grey
void adjust_saturation(Canvas& canvas, double factor);  // 0: grey
void adjust_sharpness(Canvas& canvas, double factor);   // 0: smoothed

// Output (x, y) is what stands at (a x + b y + c, d x + e y + f), both taken at pixel centres.
using Affine = std::array<double, 6>;
void transform(Canvas& canvas, const Affine& matrix);

void rotate(Canvas& canvas, double degrees);  // counter-clockwise, about the centre
// torchvision's affine() with angle 0 and scale 1: shears in radians, shifts in pixels.
struct Shift {
  double x = 0, y = 0;
};
void shear(Canvas& canvas, const Shift& angles);  // about the upper left corner
void translate(Canvas& canvas, const Shift& pixels);

}  // namespace lockstep::data::image
