#include "coord/faults.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "base/suggest.h"
#include "base/text.h"

namespace lockstep::coord {
namespace {

template <class Value, std::size_t N>
using Names = std::array<std::pair<std::string_view, Value>, N>;

constexpr Names<FaultAction, 7> kActions{{{"kill", FaultAction::kKill},
                                          {"stop", FaultAction::kStop},
                                          {"exit", FaultAction::kExit},
                                          {"abort", FaultAction::kAbort},
                                          {"segv", FaultAction::kSegv},
                                          {"hang", FaultAction::kHang},
                                          {"throw", FaultAction::kThrow}}};
constexpr std::string_view kSpace = " \t\n,";

Error bad_rule(std::string_view rule, const std::string& what) {
  return {ErrorKind::kUsage, "--inject: in '" + std::string(rule) + "': " + what};
}

std::string near_or_all(std::string_view word, std::span<const std::string> known) {
  if (std::string near = suggestion(word, known); !near.empty()) return near;
  std::string all = "; known:";
  for (const std::string& name : known) all += " " + name;
  return all;
}

constexpr auto kPhasesByName = [] {
  Names<Phase, kPhaseNames.size()> phases;
  for (std::size_t i = 0; i < phases.size(); ++i)
    phases[i] = {kPhaseNames[i], static_cast<Phase>(i)};
  return phases;
}();

template <class Value, std::size_t N>
Result<Value> lookup(const Names<Value, N>& names, std::string_view word, std::string_view rule,
                     const char* what) {
  std::vector<std::string> known;
  for (const auto& [name, value] : names) {
    if (name == word) return value;
    known.emplace_back(name);
  }
  return bad_rule(rule, std::string("unknown ") + what + " '" + std::string(word) + "'" +
                            near_or_all(word, known));
}

Result<std::uint64_t> number(std::string_view key, std::string_view text, std::uint64_t most,
                             std::string_view rule) {
  const auto value = number_of<std::uint64_t>(text);
  if (!value || *value > most)
    return bad_rule(rule, std::string(key) + " takes a whole number up to " + std::to_string(most) +
                              ", not '" + std::string(text) + "'");
  return *value;
}

// Of a key that takes words, too, of which this is none.
Result<int> number_or(std::span<const std::string> others, std::string_view key,
                      std::string_view text, std::uint64_t most, std::string_view rule) {
  if (const auto value = number(key, text, most, rule); value.ok()) return static_cast<int>(*value);
  std::string all;
  for (const std::string& other : others) all += (&other == &others.back() ? " or " : ", ") + other;
  return bad_rule(rule, std::string(key) + " takes a whole number up to " + std::to_string(most) +
                            all + ", not '" + std::string(text) + "'" + suggestion(text, others));
}

std::vector<std::string_view> words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> result;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return result;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    result.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Status set_rank(Fault& fault, std::string_view value, std::string_view rule) {
  fault.rank.reset();
  if (value == "any") return {};
  if (value == "new") {
    fault.rank = kNewcomer;
    return {};
  }
  const std::array<std::string, 2> others{"any", "new"};
  LOCKSTEP_ASSIGN(const int rank, number_or(others, "rank", value, kMaxMembers - 1, rule));
  fault.rank = Rank(rank);
  return {};
}

Status set_host(Fault& fault, std::string_view value, std::string_view rule) {
  fault.host.reset();
  if (value == "any") return {};
  const std::array<std::string, 1> others{"any"};
  LOCKSTEP_ASSIGN(fault.host, number_or(others, "host", value, kMaxMembers - 1, rule));
  return {};
}

Status set_key(Fault& fault, std::string_view key, std::string_view value, std::string_view rule) {
  if (key == "rank") return set_rank(fault, value, rule);
  if (key == "host") return set_host(fault, value, rule);
  if (key == "txn") {
    LOCKSTEP_ASSIGN(const auto txn, number(key, value, UINT64_MAX - 1, rule));
    fault.txn = Txn(txn);
  } else if (key == "phase") {
    LOCKSTEP_ASSIGN(fault.phase, lookup(kPhasesByName, value, rule, "phase"));
  } else if (key == "share") {
    LOCKSTEP_ASSIGN(const auto share, number(key, value, kMaxVirtualWorkers - 1, rule));
    fault.share = static_cast<std::uint32_t>(share);
  } else if (key == "repeat") {
    LOCKSTEP_ASSIGN(fault.repeat, number(key, value, 1'000'000, rule));
  } else if (key == "generation") {
    const std::array<std::string, 2> known{"first", "any"};
    if (value != "first" && value != "any")
      return bad_rule(rule, "generation takes first or any, not '" + std::string(value) + "'" +
                                suggestion(value, known));
    fault.first_generation_only = value == "first";
  } else {
    const std::array<std::string, 7> known{"rank",  "host",   "txn",       "phase",
                                           "share", "repeat", "generation"};
    return bad_rule(rule, "unknown key '" + std::string(key) + "'" + near_or_all(key, known));
  }
  return {};
}

Result<Fault> parse_rule(std::string_view rule) {
  const std::vector<std::string_view> parts = words(rule, kSpace);
  Fault fault;
  rule.remove_prefix(rule.find_first_not_of(kSpace));
  fault.text = rule.substr(0, rule.find_last_not_of(kSpace) + 1);
  const std::size_t equal = std::min(parts[0].find('='), parts[0].size());
  LOCKSTEP_ASSIGN(fault.action, lookup(kActions, parts[0].substr(0, equal), rule, "action"));
  if (equal < parts[0].size()) {
    if (fault.action != FaultAction::kExit) return bad_rule(rule, "only exit takes a value");
    LOCKSTEP_ASSIGN(const auto code, number("exit", parts[0].substr(equal + 1), 255, rule));
    fault.exit_code = static_cast<int>(code);
  }
  bool on_a_host = false;
  for (const std::string_view part : std::span(parts).subspan(1)) {
    const std::size_t at = part.find('=');
    if (at == std::string_view::npos)
      return bad_rule(rule, "'" + std::string(part) + "' is not of the form key=value");
    on_a_host = on_a_host || part.substr(0, at) == "host";
    LOCKSTEP_TRY(set_key(fault, part.substr(0, at), part.substr(at + 1), rule));
  }
  const bool one_worker = fault.rank && *fault.rank != kNewcomer;
  if (!on_a_host && !one_worker) fault.host = 0;
  return fault;
}

}  // namespace

Result<std::vector<Fault>> parse_faults(std::string_view spec) {
  std::vector<Fault> faults;
  for (const std::string_view rule : words(spec, ";")) {
    if (rule.find_first_not_of(kSpace) == std::string_view::npos) continue;
    LOCKSTEP_ASSIGN(Fault fault, parse_rule(rule));
    faults.push_back(fault);
  }
  if (faults.size() > kMaxFaults)
    return Error{ErrorKind::kUsage, "--inject: " + std::to_string(faults.size()) +
                                        " rules, at most " + std::to_string(kMaxFaults) +
                                        " are possible"};
  return faults;
}

}  // namespace lockstep::coord
