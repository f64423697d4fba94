// resize_kernels() for CPUs with AVX2.
#pragma once

#include "data/image/resize_kernels.h"

namespace lockstep::data::image {

const ResizeKernels& avx2_resize_kernels();

}  // namespace lockstep::data::image
