#include <algorithm>
#include <string>
#include <string_view>

#include "coord/messages.h"

namespace lockstep::coord {
namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string quoted(std::string_view line) {
  constexpr std::size_t kMost = 200;
  if (line.empty()) return "nothing";
  return "'" + std::string(line.substr(0, kMost)) + (line.size() > kMost ? "...'" : "'");
}

std::string text_difference(const char* what, std::string_view first, std::string_view other) {
  for (int line = 1; !first.empty() || !other.empty(); ++line) {
    const std::string_view a = take_line(first), b = take_line(other);
    if (a != b)
      return std::string(what) + ", line " + std::to_string(line) + ": the first worker has " +
             quoted(a) + ", this one " + quoted(b);
  }
  return "";
}

// A manifest is one line of JSON: tell the neighbourhood of the first differing character.
std::string manifest_difference(const std::string& first, const std::string& other) {
  if (first == other) return "";
  std::size_t at = 0;
  while (at < first.size() && at < other.size() && first[at] == other[at]) ++at;
  const std::size_t from = at > 40 ? at - 40 : 0;
  const auto around = [&](const std::string& text) {
    return quoted(std::string_view(text).substr(std::min(from, text.size()), 100));
  };
  return "manifest, byte " + std::to_string(at) + ": the first worker has " + around(first) +
         ", this one " + around(other);
}

std::string number_difference(const char* what, std::uint64_t first, std::uint64_t other) {
  if (first == other) return "";
  return std::string(what) + ": the first worker has " + std::to_string(first) + ", this one " +
         std::to_string(other);
}

}  // namespace

std::string first_difference(const message::Describe& first, const message::Describe& other) {
  for (std::string difference :
       {text_difference("run directory", first.run_dir, other.run_dir),
        number_difference("virtual workers", first.virtual_workers, other.virtual_workers),
        number_difference("transactions", first.total_txns, other.total_txns),
        number_difference("elastic", first.elastic ? 1 : 0, other.elastic ? 1 : 0),
        text_difference("parameters", first.parameters, other.parameters),
        manifest_difference(first.manifest, other.manifest),
        number_difference("board: virtual workers", first.board.virtual_workers,
                          other.board.virtual_workers),
        number_difference("board: sample ids per share", first.board.ids_capacity,
                          other.board.ids_capacity),
        number_difference("board: transactions kept", first.board.ring, other.board.ring)})
    if (!difference.empty()) return difference;
  return "";
}

}  // namespace lockstep::coord
