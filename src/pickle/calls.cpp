// The part of the machine where pickles of the wild call things: here they choose from a list.
#include <algorithm>

#include "base/text.h"
#include "pickle/machine.h"

namespace lockstep::pickle {

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
  global(module.str()->substr(0, options_.limits.name_bytes),
         name.str()->substr(0, options_.limits.name_bytes));
}

void Machine::global(std::string_view module, std::string_view name) {
  const std::string full = std::string(module) + "." + std::string(name);
  const auto found =
      std::ranges::find(options_.globals, full, [](const Global* g) { return g->name; });
  if (found != options_.globals.end()) return push(std::make_shared<Named>(**found));
  std::string text = "it names '" + for_terminal(full) +
                     "', which is not on the list of what data may name; nothing of it was run";
  if (!options_.advice.empty()) text += "; " + std::string(options_.advice);
  fail(text);
}

void Machine::call(bool newobj) {
  const Value arguments = pop();
  const Value callee = pop();
  if (failed_) return;
  const auto named = callee.as<Named>();
  if (named == nullptr) return fail(callee.type() + " cannot be called");
  const Global& global = named->global();
  if (global.call == nullptr || (newobj && !global.newobj))
    return fail(named->type() + " cannot be called");
  if (arguments.tuple_items() == nullptr) return fail("the arguments are not a tuple");
  auto made = global.call(*arguments.tuple_items());
  if (!made.ok()) return fail(std::string(global.name) + ": " + made.error().message);
  const bool container = made->sequence() != nullptr || made->dict_value() != nullptr;
  container ? push_container(*std::move(made)) : push(*std::move(made));
}

void Machine::build() {
  const Value state = pop();
  const Value& target = top();
  if (failed_) return;
  if (Dict* const dict = target.dict_value(); dict != nullptr && dict->ordered) {
    if (state.dict_value() == nullptr)
      return fail("the attributes of " + target.type() + " are no dict");
    dict->attributes = state;
    return;
  }
  if (target.object() == nullptr) return fail(target.type() + " takes no state");
  if (const Status built = target.object()->build(state); !built.ok()) fail(built.error().message);
}

void Machine::persistent() {
  const Value id = pop();
  if (failed_) return;
  if (!options_.persistent) return fail("data outside of the pickle are not expected here");
  auto value = options_.persistent(id);
  value.ok() ? push(*std::move(value)) : fail(value.error().message);
}

}  // namespace lockstep::pickle
