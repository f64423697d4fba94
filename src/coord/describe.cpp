#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

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
  const bool several = first.find('\n') != first.npos || other.find('\n') != other.npos;
  for (int line = 1; !first.empty() || !other.empty(); ++line) {
    const std::string_view a = take_line(first), b = take_line(other);
    if (a != b)
      return what + (several ? ", line " + std::to_string(line) : "") + ": the first worker has " +
             quoted(a) + ", this one " + quoted(b);
  }
  return "";
}

// A manifest is a flat JSON object on one line: its members as they are written, "key":value.
std::vector<std::string_view> members(std::string_view manifest) {
  std::vector<std::string_view> all;
  bool in_text = false;
  std::size_t from = 1;
  for (std::size_t i = 1; i < manifest.size(); ++i) {
    if (manifest[i] == '\\') {
      ++i;
    } else if (manifest[i] == '"') {
      in_text = !in_text;
    } else if (!in_text && (manifest[i] == ',' || manifest[i] == '}')) {
      all.push_back(manifest.substr(from, i - from));
      from = i + 1;
    }
  }
  return all;
}

std::string way_to_the_same(std::string_view member) {
  if (member.starts_with("\"initial_weights"))
    return ". Call torch::manual_seed() before the model is made, with the same seed in all "
           "workers";
  if (member.starts_with("\"dataset") || member.starts_with("\"test_set"))
    return ". Every worker must have all samples, in the same order: read from the same files, or "
           "drawn with the same seed. The run splits them by itself";
  return "";
}

std::string manifest_difference(const std::string& first, const std::string& other) {
  if (first == other) return "";
  const auto a = members(first), b = members(other);
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const std::string_view mine = x == a.end() ? "" : *x, theirs = y == b.end() ? "" : *y;
  return "manifest: the first worker has " + quoted(mine) + ", this one " + quoted(theirs) +
         way_to_the_same(mine);
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
        number_difference("elastic", first.elastic ? 1 : 0, other.elastic ? 1 : 0),
        text_difference("parameters", first.parameters, other.parameters),
        manifest_difference(first.manifest, other.manifest),
        number_difference("steps and epochs' ends of the whole run (its epochs or largest number "
                          "of steps)",
                          first.total_txns, other.total_txns),
        number_difference("board: virtual workers", first.board.virtual_workers,
                          other.board.virtual_workers),
        number_difference("board: sample ids per share", first.board.ids_capacity,
                          other.board.ids_capacity),
        number_difference("board: transactions kept", first.board.ring, other.board.ring),
        number_difference("transactions at an epoch's end", first.board.epoch_ends,
                          other.board.epoch_ends),
        number_difference("updates of a step", first.board.updates, other.board.updates),
        number_difference("first transaction", first.board.first_txn, other.board.first_txn)})
    if (!difference.empty()) return difference;
  return "";
}

}  // namespace lockstep::coord
