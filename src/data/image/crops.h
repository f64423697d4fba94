// Where torchvision's crops lie. Random ones draw in its order.
#pragma once

#include <array>

#include "data/image/image.h"
#include "data/image/resize.h"
#include "data/image/sample_random.h"

namespace lockstep::data::image {

// The middle; negative where the picture is smaller: torchvision pads that side first.
Region center_crop(Size in, Size out);
// Draws top, then left, unless the sizes are equal. `out` fits in `in`.
Region random_crop(Size in, Size out, SampleRandom& random);
// `scale`: of the area, `ratio`: width by height; both low, high.
Region random_resized_crop(Size in, const std::array<double, 2>& scale,
                           const std::array<double, 2>& ratio, SampleRandom& random);

}  // namespace lockstep::data::image
