// PixelValues::write() of planar pictures for CPUs with AVX-512 F: the bits of the narrower one.
#pragma once

#include "data/image/pixel_values.h"

namespace lockstep::data::image {

// At least 16 pixels wide; the last 16 of a row go over some a second time.
void write_planes_avx512(const PixelValues::Block& block, const PixelView& view,
                         const std::array<PixelValues::Channel, kChannels>& channels);

}  // namespace lockstep::data::image
