// Values as a pickle of protocol 2, such as torch.load(weights_only=True) of torch 1.13 to 2.11
// reads (torch/_weights_only_unpickler.py). Lists and dicts are written as often as they are there;
// only what an object's own writer shares stays shared.
// Errors: kUsage (deeper than 100, text that is not UTF-8 or above 4 GiB, an object without a
// writer, a frozenset, an attribute of a plain dict). Threads: any.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "pickle/opcodes.h"
#include "pickle/value.h"

namespace lockstep::pickle {

class Writer;
using WriteObject = std::function<Status(Writer&, const Value& object)>;

// `write_object` writes objects by the members below.
Result<std::string> write(const Value& root, const WriteObject& write_object = {});

class Writer {
 public:
  Status value(const Value& value);
  void op(Op op) { out_.push_back(static_cast<char>(op)); }
  void global(std::string_view module, std::string_view name);
  void integer(std::int64_t value);
  Status text(std::string_view text);
  void boolean(bool value) { op(value ? Op::kNewTrue : Op::kNewFalse); }

 private:
  friend Result<std::string> write(const Value& root, const WriteObject& write_object);
  explicit Writer(const WriteObject& write_object) : write_object_(write_object) {}
  template <class Int>
  void raw(Int value);
  Status any(const Value& value);
  void number(double value);
  Status bytes(const std::string& bytes);
  Status sequence(const Sequence& sequence);
  Status set(const Set& set);
  Status dict(const Dict& dict);

  const WriteObject& write_object_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace lockstep::pickle
