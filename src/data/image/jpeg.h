// JPEG by libjpeg-turbo; see decode.h.
#pragma once

#include "data/image/decode.h"

namespace lockstep::data::image {

// `choose` may be null: the whole picture.
Status decode_jpeg(Bytes file, std::string_view name, const ChooseRegion& choose, Image& out,
                   const DecodeLimits& limits);

}  // namespace lockstep::data::image
