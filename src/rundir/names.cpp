#include "rundir/names.h"

#include <cstdio>
#include <string_view>

#include "base/text.h"

namespace lockstep::rundir {

std::string step_name(std::uint64_t txn) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%08llu", static_cast<unsigned long long>(txn));
  return text;
}

std::optional<std::uint64_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto txn = number_of<std::uint64_t>(std::string_view(name).substr(kPrefix.size()));
  return txn && step_name(*txn) == name ? txn : std::nullopt;
}

}  // namespace lockstep::rundir
