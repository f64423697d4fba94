#include "pickle/value.h"

#include <algorithm>

namespace lockstep::pickle {

Status Object::build(const Value&) {
  return Error{ErrorKind::kBadData, type() + " takes no state (BUILD)"};
}

Value::Value(std::string text) : held_(Str{std::make_shared<const std::string>(std::move(text))}) {}

Value Value::bytes(std::string content) {
  Value value;
  value.held_ = Bytes{std::make_shared<const std::string>(std::move(content))};
  return value;
}

Value Value::list(Items items) {
  Value value;
  value.held_ = std::make_shared<Sequence>(Sequence{false, std::move(items)});
  return value;
}

Value Value::tuple(Items items) {
  Value value;
  value.held_ = std::make_shared<Sequence>(Sequence{true, std::move(items)});
  return value;
}

Value Value::set(Items items, bool frozen) {
  Value value;
  value.held_ = std::make_shared<Set>(Set{frozen, std::move(items)});
  return value;
}

Value Value::dict(Pairs pairs) {
  Value value;
  value.held_ = std::make_shared<Dict>(Dict{false, false, std::move(pairs), {}});
  return value;
}

Value Value::ordered_dict(Pairs pairs) {
  Value value = dict(std::move(pairs));
  value.dict_value()->ordered = true;
  return value;
}

Value Value::object_dict() {
  Value value = dict();
  value.dict_value()->object = true;
  return value;
}

std::string Value::type() const {
  switch (kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
      return "an int";
    case Kind::kFloat:
      return "a float";
    case Kind::kStr:
      return "a str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kSequence:
      return sequence()->is_tuple ? "a tuple" : "a list";
    case Kind::kSet:
      return set_value()->frozen ? "a frozenset" : "a set";
    case Kind::kDict:
      return dict_value()->ordered  ? "an OrderedDict"
             : dict_value()->object ? "an object"
                                    : "a dict";
    case Kind::kObject:
      return object()->type();
  }
  return "a value";
}

std::shared_ptr<const std::string> Value::shared_text() const {
  if (const auto* const held = std::get_if<Str>(&held_)) return held->text;
  if (const auto* const held = std::get_if<Bytes>(&held_)) return held->text;
  return nullptr;
}

const std::string* Value::text() const { return shared_text().get(); }
const std::string* Value::str() const { return kind() == Kind::kStr ? text() : nullptr; }
const std::string* Value::bytes() const { return kind() == Kind::kBytes ? text() : nullptr; }

Sequence* Value::sequence() const {
  const auto* const held = std::get_if<std::shared_ptr<Sequence>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

const Items* Value::list_items() const {
  const Sequence* const all = sequence();
  return all == nullptr || all->is_tuple ? nullptr : &all->items;
}

const Items* Value::tuple_items() const {
  const Sequence* const all = sequence();
  return all == nullptr || !all->is_tuple ? nullptr : &all->items;
}

Set* Value::set_value() const {
  const auto* const held = std::get_if<std::shared_ptr<Set>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

Dict* Value::dict_value() const {
  const auto* const held = std::get_if<std::shared_ptr<Dict>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

Object* Value::object() const {
  const auto* const held = std::get_if<std::shared_ptr<Object>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

const Value* Value::find(std::string_view key) const {
  const Dict* const all = dict_value();
  if (all == nullptr) return nullptr;
  const Value* found = nullptr;
  for (const auto& [name, value] : all->pairs) {
    if (name.text() == nullptr || *name.text() != key) continue;
    if (name.str() != nullptr) return &value;
    if (found == nullptr) found = &value;
  }
  return found;
}

void Value::set(Value key, Value value) {
  dict_value()->pairs.emplace_back(std::move(key), std::move(value));
}

void Value::append(Value item) { sequence()->items.push_back(std::move(item)); }

}  // namespace lockstep::pickle
