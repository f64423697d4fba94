// What a pickle holds, as data: Python's None, bool, int, float, str, bytes, list, tuple, set, dict
// and what a room adds (numpy arrays here; tensors in checkpoint/pt). All else is a leaf (Opaque).
// Nothing in it can run.
//
// Copies share lists and dicts, as Python's names do; text and bytes never change. Ints have 64
// bits.
// Errors: none thrown but for memory. Threads: reading from any number, changing from one.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::pickle {

class Value;

// A value of a kind that this header does not know. Holds no Values: those are counted and bounded
// by the reader, which does not look in here.
class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual std::string type() const = 0;  // for messages: "a numpy array"
  // Python's __setstate__; by default refused.
  virtual Status build(const Value& state);
  // Whether it is a value of its own and not a piece of one (a storage without a tensor). In what
  // the reader gives, an Opaque stands where a piece would.
  virtual bool complete() const { return true; }
};

// What has no form here: an object or a function that the reader's list does not have, a complex
// number, an int beyond 64 bits, a container within itself. A leaf: what was in it is not kept.
class Opaque final : public Object {
 public:
  explicit Opaque(std::string what) : what_(std::move(what)) {}
  std::string type() const override { return what_; }  // "argparse.Namespace"

 private:
  const std::string what_;
};

using Items = std::vector<Value>;
using Pairs = std::vector<std::pair<Value, Value>>;  // in the order of their insertion
struct Sequence;
struct Set;
struct Dict;

// In the order of the variant below.
enum class Kind { kNone, kBool, kInt, kFloat, kStr, kBytes, kSequence, kSet, kDict, kObject };

class Value {
 public:
  Value() = default;  // None
  template <std::same_as<bool> B>
  Value(B value) : held_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::signed_integral I>
  Value(I value) : held_(std::int64_t{value}) {}         // NOLINT(google-explicit-constructor)
  Value(double value) : held_(value) {}                  // NOLINT(google-explicit-constructor)
  Value(std::string text);                               // NOLINT(google-explicit-constructor)
  Value(const char* text) : Value(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object)  // NOLINT(google-explicit-constructor)
      : held_(std::shared_ptr<Object>(std::move(object))) {}
  static Value bytes(std::string content);
  static Value list(Items items = {});
  static Value tuple(Items items = {});
  static Value set(Items items, bool frozen);
  static Value dict(Pairs pairs = {});
  static Value ordered_dict(Pairs pairs = {});  // collections.OrderedDict
  static Value object_dict();                   // an object's attributes, still to come
  static Value opaque(std::string what) { return std::make_shared<Opaque>(std::move(what)); }

  Kind kind() const { return static_cast<Kind>(held_.index()); }
  std::string type() const;  // for messages: "a list"
  bool is_none() const { return kind() == Kind::kNone; }

  // nullptr when it is of another kind. A bool is no int here.
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&held_); }
  const double* number() const { return std::get_if<double>(&held_); }
  const std::string* str() const;
  const std::string* bytes() const;
  // str or bytes: Python 2 wrote its str as what Python 3 reads as bytes.
  const std::string* text() const;
  std::shared_ptr<const std::string> shared_text() const;
  Sequence* sequence() const;        // list or tuple
  const Items* list_items() const;   // of a list alone
  const Items* tuple_items() const;  // of a tuple alone
  Set* set_value() const;
  Dict* dict_value() const;
  Object* object() const;
  template <class T>
  std::shared_ptr<T> as() const {
    const auto* const held = std::get_if<std::shared_ptr<Object>>(&held_);
    return held == nullptr ? nullptr : std::dynamic_pointer_cast<T>(*held);
  }

  // Of a dict; nullptr when this is none or has no such key (str, or else bytes). Looks at every
  // key.
  const Value* find(std::string_view key) const;
  // Of a dict (appends, whatever keys are there) and of a list. Nothing else may be asked to.
  void set(Value key, Value value);
  void append(Value item);

 private:
  struct Str {
    std::shared_ptr<const std::string> text;
  };
  struct Bytes {
    std::shared_ptr<const std::string> text;
  };
  std::variant<std::monostate, bool, std::int64_t, double, Str, Bytes, std::shared_ptr<Sequence>,
               std::shared_ptr<Set>, std::shared_ptr<Dict>, std::shared_ptr<Object>>
      held_;
};

struct Sequence {
  bool is_tuple = false;
  Items items;
};

struct Set {
  bool frozen = false;
  Items items;  // in the file's order, which says nothing
};

struct Dict {
  bool ordered = false;
  bool object = false;  // the attributes of an object (Options::kept_objects)
  // Keys are what Python can hash: scalars, tuples and frozensets of such, objects.
  Pairs pairs;
  Value attributes;  // None or a dict: a state_dict's `_metadata` is there
};

}  // namespace lockstep::pickle
