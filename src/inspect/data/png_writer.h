#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"
#include "lockstep/status.h"

namespace lockstep::inspect {

// The picture as a PNG file of 8-bit RGB (libspng). Errors: kInternal. Threads: any.
Result<std::vector<std::uint8_t>> encode_png(const data::image::Image& image);

}  // namespace lockstep::inspect
