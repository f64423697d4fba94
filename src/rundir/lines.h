// A run's records (metrics.jsonl, times.jsonl): one JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

// Calls add(line) for each whole line; the last one may be being written. Errors: kDisk; kBadData
// for a line that is no object, and for more than 4 GiB. Threads: any.
Status read_lines(Env& env, const std::string& path,
                  const std::function<void(const nlohmann::json&)>& add);

}  // namespace lockstep::rundir
