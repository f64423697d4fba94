// All of some bytes to a descriptor.
#pragma once

#include <string_view>

#include "lockstep/status.h"

namespace lockstep {

// In as many writes as it takes, on the calling thread. kDisk with errno's text alone, which stays
// in errno; the caller knows the file.
Status write_all(int fd, std::string_view data);

}  // namespace lockstep
