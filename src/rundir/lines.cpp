#include "rundir/lines.h"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace lockstep::rundir {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

}  // namespace

Status read_lines(Env& env, const std::string& path,
                  const std::function<void(const nlohmann::json&)>& add) {
  LOCKSTEP_ASSIGN(const std::string text, env.read(path, kMostBytes));
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    ++number;
    const nlohmann::json line =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object())
      return Error{ErrorKind::kBadData, "'" + path + "', line " + std::to_string(number) +
                                            ": not a JSON object; the file is damaged"};
    add(line);
    at = end + 1;
  }
  return {};
}

}  // namespace lockstep::rundir
