// JSON of what comes from outside: a library's dump() throws on the first byte that is not UTF-8,
// or makes different names equal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

// One line, or indented by `indent` spaces. Texts and keys go through printable() (base/text.h); no
// control character is in the result, so that a terminal may show it. Never throws on content.
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace lockstep
