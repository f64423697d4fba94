// The checkpoint verbs' --json: names that are no UTF-8 do not stop it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/checkpoint.h"

namespace lockstep::inspect {

using Json = nlohmann::ordered_json;

inline std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

inline Json cursor_json(const RunCursor& cursor) {
  return {{"txn", cursor.txn}, {"epoch", cursor.epoch}, {"step", cursor.step}};
}

}  // namespace lockstep::inspect
