#include "base/json.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lockstep {
namespace {

template <class Json>
Json with_printable_texts(const Json& json) {
  if (json.is_string()) return printable(json.template get_ref<const std::string&>());
  if (json.is_array()) {
    Json array = Json::array();
    for (const Json& item : json) array.push_back(with_printable_texts(item));
    return array;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& [key, value] : json.items())
    object[printable(key)] = with_printable_texts(value);
  return object;
}

// DEL and U+0080 to U+009F, which JSON lets stand, are in its strings alone.
std::string without_controls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool pair =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte != 0x7F && !pair) {
      out += text[i];
      continue;
    }
    constexpr const char* kDigits = "0123456789abcdef";
    const auto control = static_cast<unsigned char>(pair ? text[++i] : text[i]);
    (out += "\\u00") += {kDigits[control >> 4], kDigits[control & 15]};
  }
  return out;
}

template <class Json>
std::string text_of_json(const Json& json, int indent) {
  return without_controls(with_printable_texts(json).dump(indent));
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) { return text_of_json(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return text_of_json(json, indent);
}

}  // namespace lockstep
