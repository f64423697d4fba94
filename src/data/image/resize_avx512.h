// resize_kernels() for CPUs with AVX-512 F, BW and VL.
#pragma once

#include "data/image/resize_kernels.h"

namespace lockstep::data::image {

const ResizeKernels& avx512_resize_kernels();

}  // namespace lockstep::data::image
