#include "launcher/options/signal_list.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "launcher/options/option_table.h"

namespace lockstep::launcher {
namespace {

Error wrong_signal(const std::string& what) { return misuse("--signals-to-handle: " + what); }

// As signal(7) has them, without SIG.
std::vector<std::pair<std::string, int>> named_signals() {
  std::vector<std::pair<std::string, int>> names{
      {"IOT", SIGIOT}, {"POLL", SIGPOLL}, {"CLD", SIGCLD}};
  for (int number = 1; number < __SIGRTMIN; ++number)
    if (const char* name = ::sigabbrev_np(number)) names.emplace_back(name, number);
  return names;
}

// RTMIN, RTMIN+3, RTMAX-2.
std::optional<int> real_time_signal(std::string_view name) {
  const bool from_first = name.starts_with("RTMIN");
  if (!from_first && !name.starts_with("RTMAX")) return std::nullopt;
  name.remove_prefix(5);
  int distance = 0;
  if (!name.empty()) {
    const auto number = number_of<int>(name.substr(1));
    if (name[0] != (from_first ? '+' : '-') || !number || *number < 0 || *number > SIGRTMAX)
      return std::nullopt;
    distance = *number;
  }
  const int signal = from_first ? SIGRTMIN + distance : SIGRTMAX - distance;
  return signal >= SIGRTMIN && signal <= SIGRTMAX ? std::optional(signal) : std::nullopt;
}

Result<int> number_of_signal(std::string_view word) {
  if (const auto number = number_of<int>(word)) {
    const bool is_one = (*number >= 1 && *number < __SIGRTMIN && ::sigabbrev_np(*number)) ||
                        (*number >= SIGRTMIN && *number <= SIGRTMAX);
    if (is_one) return *number;
    return wrong_signal("there is no signal " + std::to_string(*number) + "; 1 to 31 and " +
                        std::to_string(SIGRTMIN) + " to " + std::to_string(SIGRTMAX) + " are ones");
  }
  std::string name(word);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  if (name.starts_with("SIG")) name.erase(0, 3);
  const auto names = named_signals();
  const auto found = std::ranges::find(names, name, &std::pair<std::string, int>::first);
  if (found != names.end()) return found->second;
  if (const auto signal = real_time_signal(name)) return *signal;
  std::vector<std::string> known;
  known.reserve(names.size());
  for (const auto& [each, number] : names) known.push_back("SIG" + each);
  return wrong_signal("'" + std::string(word) + "' is no signal" + suggestion("SIG" + name, known));
}

// Why it cannot ask for an end; nullptr: it can.
const char* why_not(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
      return "no process can handle it";
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
      return "a program gets it for a fault of its own";
    case SIGCONT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return "it stops and continues processes";
    case SIGCHLD:
      return "the launcher knows by it when a worker ends";
    case SIGPIPE:
    case SIGXFSZ:
      return "a write that fails is an error that is told, and no signal";
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<int> stop_signals(const std::vector<int>& named) {
  std::vector<int> signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  for (const int signal : named)
    if (std::ranges::find(signals, signal) == signals.end()) signals.push_back(signal);
  return signals;
}

Result<std::vector<int>> parse_signals(const std::string& list) {
  std::vector<int> signals;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string_view word = trimmed(std::string_view(list).substr(at, comma - at));
    at = comma + 1;
    if (word.empty())
      return wrong_signal("takes signals like SIGTERM,SIGUSR1, and one is missing in '" + list +
                          "'");
    LOCKSTEP_ASSIGN(const int signal, number_of_signal(word));
    if (const char* why = why_not(signal))
      return wrong_signal("'" + std::string(word) + "' cannot ask for an end: " + why);
    if (std::ranges::find(signals, signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace lockstep::launcher
