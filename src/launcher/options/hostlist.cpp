#include "launcher/options/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep::launcher {
namespace {

struct NumberRange {
  std::uint64_t first = 0, last = 0;
  std::size_t width = 0;  // of the first, as written
  std::uint64_t count() const { return last - first + 1; }
};

// "rack[0-1]": what stands in front of the brackets, and what is in them; a name's end has none.
struct NamePart {
  std::string_view text;
  std::vector<NumberRange> ranges;
};

constexpr std::size_t kMostDigits = 18;  // fits 64 bits

Error wrong_list(std::string_view name, const std::string& why) {
  constexpr std::size_t kShown = 200;
  return misuse("list of nodes: '" + printable(name.substr(0, kShown)) +
                (name.size() > kShown ? "…" : "") + "' " + why);
}

std::optional<std::uint64_t> digits(std::string_view text) {
  if (text.empty() || text.size() > kMostDigits || text[0] < '0' || text[0] > '9')
    return std::nullopt;
  return number_of<std::uint64_t>(text);
}

std::optional<NumberRange> range_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const auto from = digits(first);
  const auto to = dash == std::string_view::npos ? from : digits(text.substr(dash + 1));
  if (!from || !to || *to < *from) return std::nullopt;
  return NumberRange{*from, *to, first.size()};
}

// Up to the comma behind it, which is taken too; commas in brackets belong to it.
Result<std::string_view> take_name(std::string_view& list) {
  bool inside = false;
  std::size_t end = 0;
  for (; end < list.size() && (inside || list[end] != ','); ++end) {
    const char c = list[end];
    if (static_cast<unsigned char>(c) <= ' ') return wrong_list(list, "has a blank");
    if (c == '[' && inside) return wrong_list(list, "has brackets in brackets");
    if (c == ']' && !inside) return wrong_list(list, "has a ']' without its '['");
    if (c == '[' || c == ']') inside = c == '[';
  }
  if (inside) return wrong_list(list, "has a '[' without its ']'");
  const std::string_view name = list.substr(0, end);
  list.remove_prefix(end);
  return name;
}

Result<std::vector<NumberRange>> ranges_of(std::string_view inside, std::string_view name) {
  std::vector<NumberRange> ranges;
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', begin), inside.size());
    const auto range = range_of(inside.substr(begin, end - begin));
    if (!range)
      return wrong_list(name, "has '" + printable(inside.substr(begin, end - begin)) +
                                  "' in its brackets, where a number or a range that goes up "
                                  "stands");
    ranges.push_back(*range);
    begin = end + 1;
  }
  return ranges;
}

Result<std::vector<NamePart>> parts_of(std::string_view name) {
  std::vector<NamePart> parts;
  std::string_view rest = name;
  while (!rest.empty()) {
    const std::size_t open = std::min(rest.find('['), rest.size());
    NamePart part{rest.substr(0, open), {}};
    rest.remove_prefix(open);
    if (!rest.empty()) {
      const std::size_t close = rest.find(']');
      LOCKSTEP_ASSIGN(part.ranges, ranges_of(rest.substr(1, close - 1), name));
      rest.remove_prefix(close + 1);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// How many names they make; more than `most`: one above it.
std::uint64_t count_of(const std::vector<NamePart>& parts, std::uint64_t most) {
  std::uint64_t count = 1;
  for (const NamePart& part : parts) {
    if (part.ranges.empty()) continue;
    std::uint64_t numbers = 0;
    for (const NumberRange& range : part.ranges) {
      if (range.count() > most - std::min(most, numbers)) return most + 1;
      numbers += range.count();
    }
    if (numbers > most / count) return most + 1;
    count *= numbers;
  }
  return count;
}

// Of the longest name that they make.
std::size_t longest_of(const std::vector<NamePart>& parts) {
  std::size_t bytes = 0;
  for (const NamePart& part : parts) {
    std::size_t most = 0;
    for (const NumberRange& range : part.ranges)
      most = std::max({most, range.width, std::to_string(range.last).size()});
    bytes += part.text.size() + most;
  }
  return bytes;
}

std::string padded(std::uint64_t number, std::size_t width) {
  const std::string text = std::to_string(number);
  return text.size() >= width ? text : std::string(width - text.size(), '0') + text;
}

// Every name so far, with every number of this part behind it.
std::vector<std::string> with(const std::vector<std::string>& names, const NamePart& part) {
  std::vector<std::string> longer;
  for (const std::string& name : names) {
    const std::string front = name + std::string(part.text);
    if (part.ranges.empty()) longer.push_back(front);
    for (const NumberRange& range : part.ranges)
      for (std::uint64_t number = range.first; number <= range.last; ++number)
        longer.push_back(front + padded(number, range.width));
  }
  return longer;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit) {
  if (text.size() > kMostListBytes)
    return misuse("list of nodes: it has " + std::to_string(text.size()) + " bytes, limit " +
                  std::to_string(kMostListBytes));
  std::vector<std::string> all;
  std::string_view rest = text;
  for (bool more = true; more;) {
    LOCKSTEP_ASSIGN(const std::string_view name, take_name(rest));
    more = !rest.empty();
    if (more) rest.remove_prefix(1);
    if (name.empty()) return wrong_list(text, "has an empty name");
    LOCKSTEP_ASSIGN(const auto parts, parts_of(name));
    if (count_of(parts, limit) > limit - all.size())
      return wrong_list(text, "has more than " + std::to_string(limit) + " nodes");
    if (longest_of(parts) > kMostNameBytes)
      return wrong_list(name, "makes a name of " + std::to_string(longest_of(parts)) +
                                  " bytes, limit " + std::to_string(kMostNameBytes));
    std::vector<std::string> names{""};
    for (const NamePart& part : parts) names = with(names, part);
    std::ranges::move(names, std::back_inserter(all));
  }
  return all;
}

}  // namespace lockstep::launcher
