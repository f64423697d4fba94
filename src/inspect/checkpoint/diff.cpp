// `lockstep checkpoint diff`.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "inspect/arguments.h"
#include "inspect/checkpoint/bundle.h"
#include "inspect/checkpoint/elements.h"
#include "inspect/checkpoint/json.h"
#include "inspect/checkpoint/verbs.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

struct Pair {
  std::string name;
  const Tensor* a = nullptr;  // null: not there
  const Tensor* b = nullptr;
};

// By name; "module." before every name of one side (DistributedDataParallel's) stays: it differs.
std::vector<Pair> pairs_of(const std::string& prefix, const Part* a, const Part* b) {
  std::map<std::string, Pair> pairs;
  const auto add = [&](const Part* part, auto member) {
    if (part == nullptr) return;
    for (const Tensor& tensor : part->tensors) {
      Pair& pair = pairs[prefix + tensor.info.name];
      pair.name = prefix + tensor.info.name;
      pair.*member = &tensor;
    }
  };
  add(a, &Pair::a);
  add(b, &Pair::b);
  std::vector<Pair> list;
  list.reserve(pairs.size());
  for (auto& [name, pair] : pairs) list.push_back(std::move(pair));
  return list;
}

const Part* part_called(const Bundle& bundle, const std::string& name) {
  const auto found = std::ranges::find(bundle.parts, name, &Part::name);
  return found == bundle.parts.end() ? nullptr : &*found;
}

// Two checkpoints: all parts of both. Else the weights of each, whatever they are called.
Result<std::vector<Pair>> pairs_of(const Bundle& a, const Bundle& b, const std::string& part) {
  if (part.empty() && a.kind == BundleKind::kCheckpoint && b.kind == BundleKind::kCheckpoint) {
    std::map<std::string, int> names;
    for (const Bundle* bundle : {&a, &b})
      for (const Part& each : bundle->parts) names[each.name] = 0;
    std::vector<Pair> pairs;
    for (const auto& [name, unused] : names)
      for (Pair& pair : pairs_of(name + "/", part_called(a, name), part_called(b, name)))
        pairs.push_back(std::move(pair));
    return pairs;
  }
  LOCKSTEP_ASSIGN(const Part* of_a, find_part(a, part));
  LOCKSTEP_ASSIGN(const Part* of_b, find_part(b, part));
  return pairs_of("", of_a, of_b);
}

struct Found {
  std::string name, what;  // for people
  Json json;
};

Found only_in(const Pair& pair) {
  const Tensor& tensor = pair.a != nullptr ? *pair.a : *pair.b;
  const std::string side = pair.a != nullptr ? "A" : "B", words = describe(tensor.info);
  return {pair.name, "only in " + side + ": " + words,
          Json{{"name", pair.name}, {"only_in", side}, {"tensor", words}}};
}

Found unlike(const Pair& pair) {
  const std::string a = describe(pair.a->info), b = describe(pair.b->info);
  return {pair.name, a + " in A, " + b + " in B", Json{{"name", pair.name}, {"a", a}, {"b", b}}};
}

Found not_compared(const Pair& pair, const std::string& why) {
  const std::string words = describe(pair.a->info);
  return {pair.name, words + why, Json{{"name", pair.name}, {"tensor", words}, {"why", why}}};
}

// nullopt: equal bits.
Result<std::optional<Found>> look_at(const Pair& pair) {
  if (pair.a == nullptr || pair.b == nullptr) return std::optional(only_in(pair));
  if (pair.a->info.dtype_name() != pair.b->info.dtype_name() ||
      pair.a->info.shape != pair.b->info.shape)
    return std::optional(unlike(pair));
  if (!pair.a->load || !pair.b->load)
    return std::optional(not_compared(pair, " in both, of a kind that is not read"));
  LOCKSTEP_ASSIGN(const Bytes a, pair.a->load());
  LOCKSTEP_ASSIGN(const Bytes b, pair.b->load());
  if (!pair.a->info.readable())
    return a == b ? std::optional<Found>() : std::optional(not_compared(pair, ": other bytes"));
  const Difference difference = compare(pair.a->info.dtype, a, b);
  if (difference.differing == 0) return std::optional<Found>();
  const double largest = difference.largest;
  return std::optional(
      Found{pair.name,
            grouped(difference.differing) + " of " + counted(difference.elements, "value") +
                " differ, by at most " + number_text(largest),
            Json{{"name", pair.name},
                 {"values", difference.elements},
                 {"differing", difference.differing},
                 {"max_abs_difference", std::isfinite(largest) ? Json(largest) : Json(nullptr)}}});
}

std::string text_of(const std::vector<Found>& differences, std::size_t equal) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(differences.size());
  for (const Found& found : differences) rows.push_back({found.name, found.what});
  return text_table(rows) + counted(equal, "tensor") + " with equal bits, " +
         counted(differences.size(), "other") + "\n";
}

}  // namespace

Result<Answer> diff_checkpoints(Env& env, Words words) {
  const Syntax syntax{
      "lockstep checkpoint diff A B [--part NAME] [--json]", {"--json"}, {"--part"}, 2, 2};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  LOCKSTEP_ASSIGN(const Bundle a, open_bundle(env, arguments.paths[0]));
  LOCKSTEP_ASSIGN(const Bundle b, open_bundle(env, arguments.paths[1]));
  LOCKSTEP_ASSIGN(const auto pairs, pairs_of(a, b, arguments.value("--part").value_or("")));
  std::vector<Found> differences;
  for (const Pair& pair : pairs) {
    LOCKSTEP_ASSIGN(auto found, look_at(pair));
    if (found) differences.push_back(*std::move(found));
  }
  const std::size_t equal = pairs.size() - differences.size();
  Answer answer{text_of(differences, equal), differences.empty() ? 0 : 1};
  if (!arguments.has("--json")) return answer;
  Json json{{"a", a.path}, {"b", b.path}, {"equal", equal}, {"differences", Json::array()}};
  for (const Found& found : differences) json["differences"].push_back(found.json);
  answer.text = json_lines(json);
  return answer;
}

}  // namespace lockstep::inspect
