// JPEG by libjpeg-turbo; see decode.h.
#pragma once

#include "data/image/decode.h"

namespace lockstep::data::image {

// As decode_region(); `choose` may be null: the whole picture, and `out` is that.
Result<PixelView> decode_jpeg(Bytes file, std::string_view name, const ChooseRegion& choose,
                              Image& out, const DecodeLimits& limits);

}  // namespace lockstep::data::image
