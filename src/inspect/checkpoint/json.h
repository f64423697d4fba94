// The checkpoint verbs' --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "lockstep/checkpoint.h"

namespace lockstep::inspect {

using Json = nlohmann::ordered_json;

inline std::string json_lines(const Json& json) { return json_text(json, 2) + "\n"; }

inline Json cursor_json(const RunCursor& cursor) {
  return {{"txn", cursor.txn}, {"epoch", cursor.epoch}, {"step", cursor.step}};
}

}  // namespace lockstep::inspect
