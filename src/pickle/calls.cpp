// The part of the machine where pickles of the wild call things: here they choose from a list.
#include <algorithm>

#include "base/text.h"
#include "pickle/array.h"
#include "pickle/banned.h"
#include "pickle/check.h"
#include "pickle/machine.h"

namespace lockstep::pickle {
namespace {

// What makes an object of the class that is its first argument (Lib/copyreg.py).
bool makes_its_argument(std::string_view callee) {
  return callee == "copyreg._reconstructor" || callee == "copy_reg._reconstructor" ||
         callee == "copyreg.__newobj__" || callee == "copyreg.__newobj_ex__";
}

bool holds_leaf(const Items& arguments) {
  return std::ranges::any_of(
      arguments, [](const Value& argument) { return argument.as<Opaque>() != nullptr; });
}

std::size_t size_of(const Value& container) {
  if (const Sequence* const sequence = container.sequence()) return sequence->items.size();
  if (const Set* const set = container.set_value()) return set->items.size();
  return 2 * container.dict_value()->pairs.size();
}

}  // namespace

void Machine::remember(std::uint64_t key) {
  const Value& value = top();
  if (failed_) return;
  memo_[key] = value;
  if (memo_.size() > options_.limits.values)
    fail("more than " + std::to_string(options_.limits.values) + " entries in the memo");
}

void Machine::recall(std::uint64_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return fail("the memo has no entry " + std::to_string(key));
  push(found->second);
}

void Machine::read_global() {
  const std::string_view module = in_.line(options_.limits.name_bytes);
  const std::string_view name = in_.line(options_.limits.name_bytes);
  if (in_.cut())
    return fail("a name has no end within " + std::to_string(options_.limits.name_bytes) +
                " bytes");
  global(module, name);
}

void Machine::stack_global() {
  const Value name = pop();
  const Value module = pop();
  if (failed_) return;
  if (name.str() == nullptr || module.str() == nullptr) return fail("a global's name is not a str");
  if (std::max(name.str()->size(), module.str()->size()) > options_.limits.name_bytes)
    return fail("a global's name has more than " + std::to_string(options_.limits.name_bytes) +
                " bytes");
  global(*module.str(), *name.str());
}

void Machine::global(std::string_view module, std::string_view name) {
  const std::string full = std::string(module) + "." + std::string(name);
  const auto found =
      std::ranges::find(options_.globals, full, [](const Global* g) { return g->name; });
  if (found != options_.globals.end()) return push(std::make_shared<Named>(**found));
  if (full.find_first_of("\n\t") != std::string::npos) return fail("a global's name is no name");
  if (!is_banned(module, name)) return push(Value::opaque(for_terminal(full)));
  std::string text = "it names '" + for_terminal(full) +
                     "', which is not on the list of what data may name; nothing of it was run";
  if (name == "getattr") text += "; an Enum's member, as Python 3.11 saves it? save its value";
  if (!options_.advice.empty()) text += "; " + std::string(options_.advice);
  fail(text);
}

void Machine::call(bool newobj) {
  const Value arguments = pop();
  const Value callee = pop();
  if (failed_) return;
  if (arguments.tuple_items() == nullptr) return fail("the arguments are not a tuple");
  const auto named = callee.as<Named>();
  if (named == nullptr && callee.as<Opaque>() == nullptr)
    return fail(callee.type() + " cannot be called");
  drop(arguments);
  if (named != nullptr && named->global().call != nullptr && (!newobj || named->global().newobj))
    call_global(named->global(), arguments);
  else
    make_leaf(callee, arguments, newobj);
}

void Machine::call_global(const Global& global, const Value& arguments) {
  auto made = global.call(*arguments.tuple_items());
  if (!made.ok() && holds_leaf(*arguments.tuple_items()))
    return push(Value::opaque(std::string(global.name)));
  if (!made.ok()) return fail(std::string(global.name) + ": " + made.error().message);
  count_bytes(*made);
  if (identity(*made) == nullptr) return push(*std::move(made));
  count(size_of(*made));  // copied from an argument, which may be named again and again
  push_container(*std::move(made));
}

void Machine::make_leaf(const Value& callee, const Value& arguments, bool newobj) {
  const std::string_view prefix = options_.kept_objects;
  if (newobj && !prefix.empty() && callee.type().starts_with(prefix))
    return push_container(Value::object_dict());
  const Items& items = *arguments.tuple_items();
  const bool its_argument = makes_its_argument(callee.type()) && !items.empty() &&
                            (items[0].as<Opaque>() != nullptr || items[0].as<Named>() != nullptr);
  const Value& name = its_argument ? items[0] : callee;
  if (name.as<Opaque>() != nullptr) return push(name);  // one text, however often it is called
  push(Value::opaque(std::string(name.as<Named>()->global().name)));
}

void Machine::build() {
  const Value state = pop();
  const Value& target = top();
  if (failed_) return;
  Dict* const dict = target.dict_value();
  if (dict != nullptr && dict->ordered) {
    if (state.dict_value() == nullptr)
      return fail("the attributes of " + target.type() + " are no dict");
    dict->attributes = state;
    return;
  }
  drop(state);
  if (dict != nullptr && dict->object) {
    if (state.dict_value() == nullptr) return;  // of a class's own making
    dict->pairs = state.dict_value()->pairs;
    return count(2 * dict->pairs.size());
  }
  if (target.as<Opaque>() != nullptr) return;
  if (target.object() == nullptr) return fail(target.type() + " takes no state");
  if (const Status built = target.object()->build(state); !built.ok())
    return fail(built.error().message);
  count_bytes(target);
}

// An argument may be named again and again, and copied each time. Python's own pickles have each
// text once or twice: as bytes, and in an array.
void Machine::count_bytes(const Value& made) {
  constexpr std::size_t kMostTimes = 4, kSome = std::size_t{1} << 20;
  const auto array = made.as<Array>();
  if (made.text() != nullptr) made_bytes_ += made.text()->size();
  if (array != nullptr && array->complete()) made_bytes_ += array->bytes().size();
  if (made_bytes_ > kMostTimes * in_.size() + kSome)
    fail("its calls make more than " + std::to_string(kMostTimes) + " times its own bytes");
}

void Machine::persistent() {
  const Value id = pop();
  if (failed_) return;
  if (!options_.persistent) return fail("data outside of the pickle are not expected here");
  auto value = options_.persistent(id);
  value.ok() ? push(*std::move(value)) : fail(value.error().message);
}

}  // namespace lockstep::pickle
