#include "pickle/check.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/errors.h"

namespace lockstep::pickle {
namespace {

const void* identity(const Value& value) {
  if (const void* const sequence = value.sequence()) return sequence;
  return value.dict_value();
}

std::vector<Value> children(const Value& value) {
  if (const Sequence* const sequence = value.sequence()) return sequence->items;
  std::vector<Value> all;
  for (const auto& [key, item] : value.dict_value()->pairs) all.push_back(item);
  all.push_back(value.dict_value()->attributes);
  return all;
}

// A str and bytes of the same characters count as the same, as find() does.
Status check_keys(const Dict& dict) {
  std::set<std::string_view> texts;
  std::set<std::int64_t> ints;
  for (const auto& [key, item] : dict.pairs) {
    const std::string* const text = key.text();
    if (text == nullptr && key.integer() == nullptr)
      return bad_data("a dict has " + key.type() + " as a key; str, bytes and int are read");
    const bool fresh =
        text != nullptr ? texts.insert(*text).second : ints.insert(*key.integer()).second;
    if (!fresh) return bad_data("a dict has the same key twice");
  }
  return {};
}

struct Seen {
  bool done = false;
  std::size_t depth = 1;
  std::size_t size = 1;
};

struct Frame {
  const void* id;
  std::vector<Value> children;
  std::size_t next = 0;
};

class Walk {
 public:
  explicit Walk(const Limits& limits) : limits_(limits) {}

  Status run(const Value& root) {
    LOCKSTEP_TRY(enter(root));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next == frame.children.size()) {
        LOCKSTEP_TRY(leave(frame));
        continue;
      }
      const Value child = frame.children[frame.next++];
      LOCKSTEP_TRY(enter(child));
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
  Status enter(const Value& value) {
    if (const Object* const object = value.object(); object != nullptr && !object->complete())
      return bad_data(object->type() + " stands where a value must be");
    const void* const id = identity(value);
    if (id == nullptr) return {};
    const auto [found, fresh] = seen_.try_emplace(id);
    if (!fresh && !found->second.done) return bad_data(value.type() + " contains itself");
    if (!fresh) return {};
    if (frames_.size() >= limits_.depth) return too_deep();
    if (value.dict_value() != nullptr) LOCKSTEP_TRY(check_keys(*value.dict_value()));
    frames_.push_back({id, children(value)});
    return {};
  }

  Status leave(Frame& frame) {
    Seen& seen = seen_[frame.id];
    seen.done = true;
    for (const Value& child : frame.children) {
      const void* const id = identity(child);
      const Seen of_child = id == nullptr ? Seen{true, 0, 1} : seen_[id];
      seen.depth = std::max(seen.depth, of_child.depth + 1);
      seen.size = std::min(limits_.expanded + 1, seen.size + of_child.size);
    }
    if (seen.depth > limits_.depth) return too_deep();
    if (seen.size > limits_.expanded)
      return bad_data("written out it has more than " + std::to_string(limits_.expanded) +
                      " values, though few are stored");
    frames_.pop_back();
    return {};
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

Result<std::vector<const void*>> check(const Value& root, const Limits& limits) {
  Walk walk(limits);
  LOCKSTEP_TRY(walk.run(root));
  return walk.identities();
}

}  // namespace lockstep::pickle
