// Python's pickle (protocols 2 to 5) as data: a machine without calls. A global means something
// only if the caller's list has it, and then one of our own functions of values; nothing that is
// read is ever imported or run. Python 2's str is read as bytes, a bytearray too.
//
//   const Table table = table_of({plain_globals(), numpy_globals()});
//   auto batch = read(bytes, {.globals = table});     // a CIFAR file
//   batch->root.find("data")->as<Array>()->bytes();   // find() takes str and bytes alike
//
// What has no form here is a leaf, an Opaque with its name: globals that are not on the list and
// what they are said to make, complex numbers, ints beyond 64 bits, what lies within itself, pieces
// (a storage without a tensor). Their arguments, states and items are read, held to the limits and
// dropped; no name is looked up.
//
// Format: CPython Lib/pickletools.py (opcodes), Lib/pickle.py (what they do), PEP 307, 3154, 574.
// Refused, with the offset, what was found, the limit and what to do: names that are there to have
// something run (banned.h); opcodes that data do not need, extensions, buffers out of band; keys
// that cannot be hashed or are there twice; more than the limits; calls that would make more than
// four times the pickle's bytes. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "pickle/value.h"

namespace lockstep::pickle {

// What the global "MODULE.NAME" stands for; lives as long as the process.
struct Global {
  std::string_view name;
  // For REDUCE and NEWOBJ; nullptr: can only be named.
  Result<Value> (*call)(std::span<const Value> arguments) = nullptr;
  bool newobj = false;  // a class: NEWOBJ too
  bool value = false;   // may stay in the result as a Named: torch.float32; else a leaf
};

// A global as a value.
class Named final : public Object {
 public:
  explicit Named(const Global& global) : global_(global) {}
  const Global& global() const { return global_; }
  std::string type() const override {
    return global_.value ? "the global '" + std::string(global_.name) + "'"
                         : std::string(global_.name);
  }
  bool complete() const override { return global_.value; }

 private:
  const Global& global_;
};

struct Limits {
  std::size_t values = 2'000'000;    // pushed in all, or copied, and again in the memo
  std::size_t depth = 100;           // of lists in lists
  std::size_t expanded = 8'000'000;  // values of the result, shared ones counted each time
  std::size_t name_bytes = 200;      // of a global
};

struct Options {
  std::span<const Global* const> globals;
  std::function<Result<Value>(const Value& id)> persistent;  // BINPERSID; empty: refused
  std::string_view advice;  // ends the message on a name that is banned
  Limits limits;
  // Objects (NEWOBJ) of globals that begin so keep their attributes: they become dicts.
  std::string_view kept_objects = {};
};

struct Document {
  Value root;
  std::size_t bytes = 0;  // read, STOP included; what follows is the caller's
};

Result<Document> read(std::span<const std::byte> input, const Options& options);

// Python's dicts (OrderedDict, defaultdict, Counter), sets and bytes, by both Pythons' names.
std::span<const Global> plain_globals();
// numpy's scalars, arrays and dtypes, of numpy.core and numpy._core; see array.h.
std::span<const Global> numpy_globals();

using Table = std::vector<const Global*>;
Table table_of(std::initializer_list<std::span<const Global>> parts);

}  // namespace lockstep::pickle
