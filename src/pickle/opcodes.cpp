#include "pickle/opcodes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace lockstep::pickle {
namespace {

struct Row {
  std::uint8_t op;
  std::string_view name;
};

// clang-format off
constexpr std::array kNames{
    Row{'(', "MARK"}, Row{'.', "STOP"}, Row{'0', "POP"}, Row{'1', "POP_MARK"}, Row{'2', "DUP"}, Row{'F', "FLOAT"},
    Row{'I', "INT"}, Row{'J', "BININT"}, Row{'K', "BININT1"}, Row{'L', "LONG"}, Row{'M', "BININT2"}, Row{'N', "NONE"},
    Row{'P', "PERSID"}, Row{'Q', "BINPERSID"}, Row{'R', "REDUCE"}, Row{'S', "STRING"}, Row{'T', "BINSTRING"},
    Row{'U', "SHORT_BINSTRING"}, Row{'V', "UNICODE"}, Row{'X', "BINUNICODE"}, Row{'a', "APPEND"}, Row{'b', "BUILD"},
    Row{'c', "GLOBAL"}, Row{'d', "DICT"}, Row{'}', "EMPTY_DICT"}, Row{'e', "APPENDS"}, Row{'g', "GET"}, Row{'h', "BINGET"},
    Row{'i', "INST"}, Row{'j', "LONG_BINGET"}, Row{'l', "LIST"}, Row{']', "EMPTY_LIST"}, Row{'o', "OBJ"}, Row{'p', "PUT"},
    Row{'q', "BINPUT"}, Row{'r', "LONG_BINPUT"}, Row{'s', "SETITEM"}, Row{'t', "TUPLE"}, Row{')', "EMPTY_TUPLE"},
    Row{'u', "SETITEMS"}, Row{'G', "BINFLOAT"}, Row{0x80, "PROTO"}, Row{0x81, "NEWOBJ"}, Row{0x82, "EXT1"}, Row{0x83, "EXT2"},
    Row{0x84, "EXT4"}, Row{0x85, "TUPLE1"}, Row{0x86, "TUPLE2"}, Row{0x87, "TUPLE3"}, Row{0x88, "NEWTRUE"},
    Row{0x89, "NEWFALSE"}, Row{0x8a, "LONG1"}, Row{0x8b, "LONG4"}, Row{'B', "BINBYTES"}, Row{'C', "SHORT_BINBYTES"},
    Row{0x8c, "SHORT_BINUNICODE"}, Row{0x8d, "BINUNICODE8"}, Row{0x8e, "BINBYTES8"}, Row{0x8f, "EMPTY_SET"},
    Row{0x90, "ADDITEMS"}, Row{0x91, "FROZENSET"}, Row{0x92, "NEWOBJ_EX"}, Row{0x93, "STACK_GLOBAL"}, Row{0x94, "MEMOIZE"},
    Row{0x95, "FRAME"}, Row{0x96, "BYTEARRAY8"}, Row{0x97, "NEXT_BUFFER"}, Row{0x98, "READONLY_BUFFER"},
};
// clang-format on

}  // namespace

std::string name_of(Op op) {
  const auto byte = static_cast<std::uint8_t>(op);
  const auto* const found = std::ranges::find(kNames, byte, &Row::op);
  if (found != kNames.end()) return std::string(found->name);
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02x", byte);
  return text.data();
}

}  // namespace lockstep::pickle
