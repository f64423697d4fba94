#pragma once

#include <string>
#include <utility>

#include "lockstep/status.h"

namespace lockstep {

// The two errors that rooms make most, of a message that says all.
inline Error bad_data(std::string what) { return {ErrorKind::kBadData, std::move(what)}; }
inline Error misuse(std::string what) { return {ErrorKind::kUsage, std::move(what)}; }

}  // namespace lockstep
