#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "coord/messages.h"
#include "rundir/manifest.h"

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

constexpr const char* kSameCommand = ". Give all the same program and options";

// Who has what, as they are called.
struct Pair {
  std::string_view first, other;
};

std::string have(const Pair& names, const std::string& one, const std::string& another) {
  return ": " + std::string(names.first) + " has " + one + ", " + std::string(names.other) + " " +
         another;
}

std::string text_difference(const Pair& names, const char* what, std::string_view first,
                            std::string_view other) {
  const bool several = first.find('\n') != first.npos || other.find('\n') != other.npos;
  for (int line = 1; !first.empty() || !other.empty(); ++line) {
    const std::string_view a = take_line(first), b = take_line(other);
    if (a != b)
      return what + (several ? ", line " + std::to_string(line) : "") +
             have(names, quoted(a), quoted(b)) + kSameCommand;
  }
  return "";
}

std::string way_to_the_same(std::string_view key) {
  if (key == "threads")
    return ". Give each worker as many threads as the others (OMP_NUM_THREADS or --threads)";
  if (key == "torch") return ". Start all with the same libtorch";
  if (key == "cpu_capability")
    return ". A CPU that has more can be held to less by ATEN_CPU_CAPABILITY: give the same to all";
  if (key == rundir::kInitialWeightsKey)
    return ". Call torch::manual_seed() before the model is made, with the same seed in all "
           "workers";
  if (key.starts_with("dataset") || key.starts_with("test_set"))
    return ". Every worker must have all samples, in the same order: read from the same files, or "
           "drawn with the same seed. The run splits them by itself";
  return kSameCommand;
}

std::string manifest_difference(const Pair& names, const std::string& first,
                                const std::string& other) {
  if (first == other) return "";
  const auto a = rundir::RunManifest::parse(first), b = rundir::RunManifest::parse(other);
  const auto differs = a.ok() && b.ok() ? b->first_difference(*a) : std::nullopt;
  if (!differs) return text_difference(names, "manifest", first, other);
  return differs->key + have(names, quoted(differs->then), quoted(differs->now)) +
         way_to_the_same(differs->key);
}

std::string number_difference(const Pair& names, const char* what, std::uint64_t first,
                              std::uint64_t other) {
  if (first == other) return "";
  return what + have(names, std::to_string(first), std::to_string(other)) + kSameCommand;
}

// But for the run directory.
std::string difference(const Pair& names, const message::Describe& first,
                       const message::Describe& other) {
  const auto number = [&](const char* what, std::uint64_t one, std::uint64_t another) {
    return number_difference(names, what, one, another);
  };
  for (std::string found :
       {number("virtual workers", first.virtual_workers, other.virtual_workers),
        number("elastic", first.elastic ? 1 : 0, other.elastic ? 1 : 0),
        text_difference(names, "parameters", first.parameters, other.parameters),
        manifest_difference(names, first.manifest, other.manifest),
        number("steps and epochs' ends of the whole run (its epochs or largest number of steps)",
               first.total_txns, other.total_txns),
        number("board: virtual workers", first.board.virtual_workers, other.board.virtual_workers),
        number("board: sample ids per share", first.board.ids_capacity, other.board.ids_capacity),
        number("board: transactions kept", first.board.ring, other.board.ring),
        number("transactions at an epoch's end", first.board.epoch_ends, other.board.epoch_ends),
        number("updates of a step", first.board.updates, other.board.updates)})
    if (!found.empty()) return found;
  return "";
}

std::optional<message::Describe> description_of(const std::string& bytes) {
  const auto message = decode(std::as_bytes(std::span(bytes)));
  const auto* describe = message.ok() ? std::get_if<message::Describe>(&*message) : nullptr;
  if (describe == nullptr) return std::nullopt;
  return *describe;
}

std::string bytes_or_nothing(const message::Describe& description) {
  auto bytes = encode(description);
  return bytes.ok() && bytes->size() <= kMostDescription ? *std::move(bytes) : std::string();
}

}  // namespace

std::string first_difference(const message::Describe& first, const message::Describe& other) {
  const Pair names{"the first worker", "this one"};
  const std::string place = text_difference(names, "run directory", first.run_dir, other.run_dir);
  return place.empty() ? difference(names, first, other) : place;
}

std::string difference_of_nodes(const NodeDescription& first, const NodeDescription& other) {
  const auto one = description_of(first.bytes), another = description_of(other.bytes);
  if (!one || !another) return "";
  const std::string names[] = {"node " + std::to_string(first.node),
                               "node " + std::to_string(other.node)};
  return difference({names[0], names[1]}, *one, *another);
}

std::string bytes_of(message::Describe description) {
  description.run_dir.clear();
  std::string all = bytes_or_nothing(description);
  if (!all.empty()) return all;
  description.parameters.clear();
  return bytes_or_nothing(description);
}

std::uint64_t digest_of(const message::Describe& d) {
  std::string all = d.parameters + '\n' + d.manifest;
  for (const std::uint64_t number :
       {std::uint64_t{d.virtual_workers}, std::uint64_t{d.elastic}, std::uint64_t{d.total_txns},
        std::uint64_t{d.board.virtual_workers}, std::uint64_t{d.board.ids_capacity},
        std::uint64_t{d.board.ring}, std::uint64_t{d.board.epoch_ends},
        std::uint64_t{d.board.updates}})
    all += '\n' + std::to_string(number);
  return xxh3(std::as_bytes(std::span(all)));
}

}  // namespace lockstep::coord
