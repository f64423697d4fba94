// Times in messages. Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

std::string seconds(std::uint64_t ns);  // "1.0 s"

}  // namespace lockstep
