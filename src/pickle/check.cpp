#include "pickle/check.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/errors.h"

namespace lockstep::pickle {
namespace {

// The i-th value in a container: a dict's are key, value, key, value, ..., attributes.
Value* slot(const Value& container, std::size_t i) {
  const auto item = [&](Items& items) { return i < items.size() ? &items[i] : nullptr; };
  if (Sequence* const sequence = container.sequence()) return item(sequence->items);
  if (Set* const set = container.set_value()) return item(set->items);
  Dict& dict = *container.dict_value();
  if (i == 2 * dict.pairs.size()) return &dict.attributes;
  if (i / 2 >= dict.pairs.size()) return nullptr;
  auto& [key, value] = dict.pairs[i / 2];
  return i % 2 == 0 ? &key : &value;
}

// Other keys may be equal and are not compared: NaN, tuples, objects.
Status check_fresh(const Dict& dict) {
  std::set<std::string_view> strs, bytes;
  std::set<std::int64_t> ints;
  std::set<double> floats;
  for (const auto& [key, item] : dict.pairs) {
    bool fresh = true;
    if (key.str() != nullptr) fresh = strs.insert(*key.str()).second;
    if (key.bytes() != nullptr) fresh = bytes.insert(*key.bytes()).second;
    if (key.integer() != nullptr) fresh = ints.insert(*key.integer()).second;
    if (key.number() != nullptr && *key.number() == *key.number())
      fresh = floats.insert(*key.number()).second;
    if (!fresh) return bad_data("a dict has the same key twice");
  }
  return {};
}

struct Seen {
  bool done = false;
  bool hashable = true;
  std::size_t depth = 1;
  std::size_t size = 1;
};

struct Frame {
  Value container;
  std::size_t next = 0;
};

class Walk {
 public:
  explicit Walk(const Limits& limits) : limits_(limits) {}

  Status run(Value& root) {
    LOCKSTEP_TRY(enter(root));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (Value* const child = slot(frame.container, frame.next++))
        LOCKSTEP_TRY(enter(*child));
      else
        LOCKSTEP_TRY(leave(frame.container));
    }
    return {};
  }

  std::vector<const void*> identities() const {
    std::vector<const void*> all;
    for (const auto& [id, seen] : seen_) all.push_back(id);
    std::ranges::sort(all);
    return all;
  }

 private:
  // A container's size does not change here, so `value` stays where it is.
  Status enter(Value& value) {
    if (const Object* const object = value.object(); object != nullptr && !object->complete())
      value = Value::opaque(object->type());
    const void* const id = identity(value);
    if (id == nullptr) return {};
    const auto [found, fresh] = seen_.try_emplace(id);
    if (!fresh && !found->second.done) value = Value::opaque(value.type() + " within itself");
    if (!fresh) return {};
    if (frames_.size() >= limits_.depth) return too_deep();
    frames_.push_back({value});
    return {};
  }

  Status leave(const Value& container) {
    Seen& seen = seen_[identity(container)];
    const bool is_tuple = container.tuple_items() != nullptr;
    const Set* const set = container.set_value();
    seen.hashable = is_tuple || (set != nullptr && set->frozen);
    for (std::size_t i = 0; const Value* const child = slot(container, i); ++i) {
      const Seen of_child =
          identity(*child) == nullptr ? Seen{.depth = 0} : seen_[identity(*child)];
      seen.depth = std::max(seen.depth, of_child.depth + 1);
      seen.size = std::min(limits_.expanded + 1, seen.size + of_child.size);
      seen.hashable = seen.hashable && of_child.hashable;
    }
    if (seen.depth > limits_.depth) return too_deep();
    if (seen.size > limits_.expanded)
      return bad_data("written out it has more than " + std::to_string(limits_.expanded) +
                      " values, though few are stored");
    if (container.dict_value() != nullptr) LOCKSTEP_TRY(check_keys(*container.dict_value()));
    seen.done = true;
    frames_.pop_back();
    return {};
  }

  Status check_keys(const Dict& dict) const {
    for (const auto& [key, item] : dict.pairs) {
      const auto seen = seen_.find(identity(key));
      if (seen != seen_.end() && !seen->second.hashable)
        return bad_data("a dict has " + key.type() + " as a key, which Python cannot hash");
    }
    return check_fresh(dict);
  }

  Error too_deep() const {
    return bad_data("lists, tuples and dicts lie in each other more than " +
                    std::to_string(limits_.depth) + " deep");
  }

  const Limits& limits_;
  std::unordered_map<const void*, Seen> seen_;
  std::vector<Frame> frames_;
};

}  // namespace

const void* identity(const Value& value) {
  if (const void* const sequence = value.sequence()) return sequence;
  if (const void* const set = value.set_value()) return set;
  return value.dict_value();
}

Result<std::vector<const void*>> check(Value& root, std::span<Value> dropped,
                                       const Limits& limits) {
  Walk walk(limits);
  LOCKSTEP_TRY(walk.run(root));
  for (Value& value : dropped) LOCKSTEP_TRY(walk.run(value));
  return walk.identities();
}

}  // namespace lockstep::pickle
