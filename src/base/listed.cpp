#include "base/listed.h"

namespace lockstep {

std::string listed(const std::vector<std::string>& first, std::size_t in_all) {
  std::string text;
  for (const std::string& name : first) text += (text.empty() ? "" : ", ") + name;
  return in_all > first.size() ? text + " and " + std::to_string(in_all - first.size()) + " more"
                               : text;
}

}  // namespace lockstep
