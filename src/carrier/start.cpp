#include "carrier/start.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/text.h"

namespace lockstep::carrier {
namespace {

constexpr const char* kFor = "--for";

// visit(name, number) of each.
template <class S, class Visit>
void each_number(S& start, const Visit& visit) {
  visit("--board", start.board);
  visit("--agent", start.agent);
  visit("--listener", start.listener);
  visit("--host", start.self.stay.host);
  visit("--stay", start.self.stay.count);
  visit("--attempt", start.self.attempt);
  visit("--incarnation", start.self.incarnation);
  visit("--silence-ms", start.silence);
  visit("--ping-ms", start.ping);
}

template <class Number>
std::string text_of(const Number& number) {
  if constexpr (std::is_integral_v<Number>)
    return std::to_string(number);
  else
    return std::to_string(number.count());
}

// False: it is none, or does not fit.
template <class Number>
bool take(const std::string& word, Number& number) {
  using Count = typename std::conditional_t<std::is_integral_v<Number>, std::type_identity<Number>,
                                            std::type_identity<std::int32_t>>::type;
  const auto read = number_of<Count>(word);
  if (!read || *read < 0) return false;
  number = Number(*read);
  return true;
}

Error wrong(const std::string& what) {
  return {ErrorKind::kUsage, "lockstep-link: " + what +
                                 "; 'lockstep run' starts this program, for a run on several "
                                 "hosts: it is of no use by hand"};
}

}  // namespace

std::vector<std::string> words_of(const Start& start, const std::string& version) {
  std::vector<std::string> words{kFor, version};
  each_number(start, [&](const char* name, const auto& number) {
    words.insert(words.end(), {name, text_of(number)});
  });
  return words;
}

// As they are written: each of them once, in this order.
Result<Start> read_start(std::span<const std::string> words, const std::string& version) {
  if (words.size() < 2 || words[0] != kFor) return wrong("no '--for VERSION' comes first");
  if (words[1] != version)
    return Error{ErrorKind::kUsage, "'lockstep' is version " + words[1] +
                                        ", 'lockstep-link' beside it " + version +
                                        ": install both from one build"};
  Start start;
  Status read;
  std::size_t at = 2;
  each_number(start, [&](const std::string& name, auto& number) {
    if (!read.ok()) return;
    if (at >= words.size() || words[at] != name)
      read = wrong("'" + name + " NUMBER' is expected, there is " +
                   (at >= words.size() ? "nothing more" : "'" + words[at] + "'"));
    else if (at + 1 >= words.size() || !take(words[at + 1], number))
      read = wrong("'" + name + "' takes a number from 0 on, not '" +
                   (at + 1 >= words.size() ? "" : words[at + 1]) + "'");
    at += 2;
  });
  LOCKSTEP_TRY(read);
  if (at < words.size()) return wrong("'" + words[at] + "' is one word too many");
  return start;
}

}  // namespace lockstep::carrier
