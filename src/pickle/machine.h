// The machine behind read(): a stack, marks and a memo. It stops at the first fault.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "pickle/input.h"
#include "pickle/opcodes.h"
#include "pickle/reader.h"

namespace lockstep::pickle {

class Machine {
 public:
  Machine(std::span<const std::byte> input, const Options& options)
      : in_(input), options_(options) {}
  // Lists that contain themselves would never be freed, and deep ones would be freed by recursion.
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Result<Document> run();

 private:
  void step(Op op);
  bool scalar(Op op);     // whether it was one
  bool text(Op op);       //
  bool container(Op op);  //
  void protocol();
  void integer(std::uint64_t bytes);
  void string(std::uint64_t bytes);
  void bytes(std::uint64_t bytes) { push(Value::bytes(std::string(in_.take(bytes)))); }

  void count(std::size_t values = 1);
  void count_bytes(const Value& made);
  void push(Value value);
  void push_container(Value value);
  Value pop();
  Value& top();  // of what lies above the last mark; a fault and None if there is nothing
  Items pop_mark();
  void drop(Value value);  // was read and counted, and has no place in the result
  void drop(Items items);
  void drop_item();  // POP: a value, or an empty mark
  void tuple_of(std::size_t count);
  void append(Items items);
  void add_items(Items items);
  void set_items(Items items);

  void remember(std::uint64_t key);
  void recall(std::uint64_t key);
  void global(std::string_view module, std::string_view name);
  void read_global();
  void stack_global();
  void call(bool newobj);
  void call_global(const Global& global, const Value& arguments);
  void make_leaf(const Value& callee, const Value& arguments, bool newobj);
  void build();
  void persistent();

  void fail(const std::string& what);
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Input in_;
  const Options& options_;
  Items stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Value> memo_;
  Items containers_;               // all that were made
  Items dropped_;                  // containers: the limits hold for them, too
  std::vector<const void*> kept_;  // those that passed the check
  std::size_t pushed_ = 0;
  std::size_t made_bytes_ = 0;  // by calls: of text, bytes and arrays
  Value nothing_;
  bool stopped_ = false;
  bool failed_ = false;
  std::string fault_;
};

}  // namespace lockstep::pickle
