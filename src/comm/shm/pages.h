// Faults pages in before they are needed, without changing them. Threads: any. Errors: none; it is
// only a matter of speed.
#pragma once

#include <cstddef>

namespace lockstep::comm::shm {

enum class Access { kRead, kWrite };
// MADV_POPULATE_READ or _WRITE (Linux 5.14); on older kernels each page is touched.
void prefault(std::byte* first, std::size_t bytes, Access access);

}  // namespace lockstep::comm::shm
