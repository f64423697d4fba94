#include "pickle/machine.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "pickle/check.h"
#include "pickle/utf8.h"

namespace lockstep::pickle {
namespace {

// In 64 bits, or else as a leaf with its digits.
Value int_value(unsigned __int128 bits, bool negative) {
  const auto low = static_cast<std::int64_t>(static_cast<std::uint64_t>(bits));
  if (bits == static_cast<unsigned __int128>(static_cast<__int128>(low))) return low;
  unsigned __int128 size = negative ? -bits : bits;
  std::string digits;
  for (; size != 0; size /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(size % 10)));
  return Value::opaque("the int " + std::string(negative ? "-" : "") + digits);
}

}  // namespace

Machine::~Machine() {
  for (Value& value : containers_) {
    if (std::ranges::binary_search(kept_, identity(value))) continue;
    // What they held lives on in containers_, until it is its turn.
    if (Sequence* const sequence = value.sequence()) sequence->items.clear();
    if (Set* const set = value.set_value()) set->items.clear();
    if (Dict* const dict = value.dict_value()) *dict = {};
  }
}

Result<Document> Machine::run() {
  std::size_t at = 0;
  Op op = Op::kStop;
  while (!stopped_ && !failed_) {
    at = in_.at();
    op = static_cast<Op>(in_.little<std::uint8_t>());
    if (!in_.cut()) step(op);
    if (in_.cut() && !failed_) fail("the data end in the middle; fetch or copy the file again");
  }
  if (!failed_ && (stack_.size() != 1 || !marks_.empty()))
    fail("STOP leaves " + std::to_string(stack_.size()) + " values and " +
         std::to_string(marks_.size()) + " marks where one value is due");
  if (!failed_) {
    auto reached = check(stack_.back(), dropped_, options_.limits);
    if (reached.ok())
      kept_ = *std::move(reached);
    else
      fail(reached.error().message);
  }
  if (failed_)
    return Error{ErrorKind::kBadData,
                 "byte " + std::to_string(at) + " of the pickle, " + name_of(op) + ": " + fault_};
  return Document{stack_.back(), in_.at()};
}

void Machine::step(Op op) {
  if (scalar(op) || text(op) || container(op)) return;
  switch (op) {
    case Op::kProto:
      return protocol();
    case Op::kFrame:
      if (in_.little<std::uint64_t>() > in_.left()) fail("a frame goes beyond the end");
      return;
    case Op::kStop:
      stopped_ = true;
      return;
    case Op::kBinPut:
      return remember(in_.little<std::uint8_t>());
    case Op::kLongBinPut:
      return remember(in_.little<std::uint32_t>());
    case Op::kMemoize:
      return remember(memo_.size());
    case Op::kBinGet:
      return recall(in_.little<std::uint8_t>());
    case Op::kLongBinGet:
      return recall(in_.little<std::uint32_t>());
    case Op::kGlobal:
      return read_global();
    case Op::kStackGlobal:
      return stack_global();
    case Op::kReduce:
      return call(false);
    case Op::kNewObj:
      return call(true);
    case Op::kNewObjEx:
      drop(pop());  // the keywords
      return call(true);
    case Op::kPop:
      return drop_item();
    case Op::kPopMark:
      return drop(pop_mark());
    case Op::kBuild:
      return build();
    case Op::kBinPersId:
      return persistent();
    default:
      fail("this opcode is not one that data need, and it is refused");
  }
}

bool Machine::scalar(Op op) {
  switch (op) {
    case Op::kNone:
      return push({}), true;
    case Op::kNewTrue:
    case Op::kNewFalse:
      return push(op == Op::kNewTrue), true;
    case Op::kBinInt:
      return push(in_.little<std::int32_t>()), true;
    case Op::kBinInt1:
      return push(std::int64_t{in_.little<std::uint8_t>()}), true;
    case Op::kBinInt2:
      return push(std::int64_t{in_.little<std::uint16_t>()}), true;
    case Op::kLong1:
      return integer(in_.little<std::uint8_t>()), true;
    case Op::kLong4:
      return integer(in_.little<std::uint32_t>()), true;
    case Op::kBinFloat:
      return push(in_.big_double()), true;
    default:
      return false;
  }
}

bool Machine::text(Op op) {
  switch (op) {
    case Op::kShortBinUnicode:
      return string(in_.little<std::uint8_t>()), true;
    case Op::kBinUnicode:
      return string(in_.little<std::uint32_t>()), true;
    case Op::kBinUnicode8:
      return string(in_.little<std::uint64_t>()), true;
    case Op::kShortBinString:
    case Op::kShortBinBytes:
      return bytes(in_.little<std::uint8_t>()), true;
    case Op::kBinString:  // signed in Python; what is negative is larger than any input here
    case Op::kBinBytes:
      return bytes(in_.little<std::uint32_t>()), true;
    case Op::kBinBytes8:
    case Op::kByteArray8:
      return bytes(in_.little<std::uint64_t>()), true;
    default:
      return false;
  }
}

bool Machine::container(Op op) {
  switch (op) {
    case Op::kMark:
      count();
      return marks_.push_back(stack_.size()), true;
    case Op::kEmptyList:
      return push_container(Value::list()), true;
    case Op::kEmptyDict:
      return push_container(Value::dict()), true;
    case Op::kEmptySet:
      return push_container(Value::set({}, false)), true;
    case Op::kFrozenSet:
      return push_container(Value::set(pop_mark(), true)), true;
    case Op::kAddItems:
      return add_items(pop_mark()), true;
    case Op::kEmptyTuple:
      return tuple_of(0), true;
    case Op::kTuple1:
      return tuple_of(1), true;
    case Op::kTuple2:
      return tuple_of(2), true;
    case Op::kTuple3:
      return tuple_of(3), true;
    case Op::kTuple:
      return push_container(Value::tuple(pop_mark())), true;
    case Op::kAppend:
      return append({pop()}), true;
    case Op::kAppends:
      return append(pop_mark()), true;
    case Op::kSetItem: {
      Value value = pop();
      return set_items({pop(), std::move(value)}), true;
    }
    case Op::kSetItems:
      return set_items(pop_mark()), true;
    default:
      return false;
  }
}

void Machine::protocol() {
  const int version = in_.little<std::uint8_t>();
  if (version < 2 || version > 5)
    fail("protocol " + std::to_string(version) + "; 2 to 5 are read: save with one of these");
}

void Machine::integer(std::uint64_t bytes) {
  const std::string_view digits = in_.take(bytes);
  const bool negative = !digits.empty() && (static_cast<unsigned char>(digits.back()) & 0x80) != 0;
  unsigned __int128 value = negative ? ~static_cast<unsigned __int128>(0) : 0;
  if (digits.size() > sizeof value)
    return push(Value::opaque("an int of " + std::to_string(digits.size()) + " bytes"));
  if (!digits.empty()) std::memcpy(&value, digits.data(), digits.size());
  push(int_value(value, negative));
}

void Machine::string(std::uint64_t bytes) {
  const std::string_view text = in_.take(bytes);
  if (!is_utf8(text)) return fail("a str is not UTF-8");
  push(std::string(text));
}

void Machine::count(std::size_t values) {
  pushed_ += values;
  if (pushed_ > options_.limits.values)
    fail("more than " + std::to_string(options_.limits.values) + " values");
}

void Machine::push(Value value) {
  count();
  if (!failed_) stack_.push_back(std::move(value));
}

void Machine::push_container(Value value) {
  containers_.push_back(value);
  push(std::move(value));
}

Value Machine::pop() {
  Value value = std::move(top());
  if (!failed_) stack_.pop_back();
  return value;
}

Value& Machine::top() {
  if (stack_.size() > floor()) return stack_.back();
  fail("there is nothing on the stack that it could take");
  return nothing_ = Value();
}

Items Machine::pop_mark() {
  if (marks_.empty()) {
    fail("there is no mark on the stack");
    return {};
  }
  const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Items items(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
  stack_.erase(from, stack_.end());
  marks_.pop_back();
  return items;
}

void Machine::tuple_of(std::size_t count) {
  if (stack_.size() - floor() < count)
    return fail("there is nothing on the stack that it could take");
  const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
  Items items(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
  stack_.erase(from, stack_.end());
  push_container(Value::tuple(std::move(items)));
}

void Machine::drop(Value value) {
  if (!failed_ && identity(value) != nullptr) dropped_.push_back(std::move(value));
}

void Machine::drop(Items items) {
  for (Value& value : items) drop(std::move(value));
}

void Machine::drop_item() {
  if (stack_.size() == floor() && !marks_.empty()) return marks_.pop_back();
  drop(pop());
}

void Machine::append(Items items) {
  const Value& target = top();
  if (target.as<Opaque>() != nullptr) return drop(std::move(items));
  if (target.list_items() == nullptr)
    return fail("only a list can be appended to, not " + target.type());
  auto& list = target.sequence()->items;
  list.insert(list.end(), std::make_move_iterator(items.begin()),
              std::make_move_iterator(items.end()));
}

void Machine::add_items(Items items) {
  const Value& target = top();
  if (target.as<Opaque>() != nullptr) return drop(std::move(items));
  Set* const set = target.set_value();
  if (set == nullptr || set->frozen)
    return fail("only a set can be added to, not " + target.type());
  set->items.insert(set->items.end(), std::make_move_iterator(items.begin()),
                    std::make_move_iterator(items.end()));
}

void Machine::set_items(Items items) {
  const Value& target = top();
  if (target.as<Opaque>() != nullptr) return drop(std::move(items));
  Dict* const dict = target.dict_value();
  if (dict == nullptr) return fail("only a dict can be given items, not " + target.type());
  if (items.size() % 2 != 0) return fail("a key has no value");
  for (std::size_t i = 0; i < items.size(); i += 2)
    dict->pairs.emplace_back(std::move(items[i]), std::move(items[i + 1]));
}

void Machine::fail(const std::string& what) {
  if (!failed_) fault_ = what;
  failed_ = true;
}

}  // namespace lockstep::pickle
