// PNG by libspng; see decode.h.
#pragma once

#include "data/image/decode.h"

namespace lockstep::data::image {

Status decode_png(Bytes file, std::string_view name, Image& out, const DecodeLimits& limits);

}  // namespace lockstep::data::image
