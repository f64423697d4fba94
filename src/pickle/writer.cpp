#include "pickle/writer.h"

#include <bit>
#include <limits>

#include "pickle/utf8.h"

namespace lockstep::pickle {
namespace {

constexpr int kMaxDepth = 100;

Error usage(const std::string& what) {
  return {ErrorKind::kUsage, "this cannot be written as a pickle: " + what};
}

// Each byte as the code point of its number.
std::string utf8_of_latin1(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text.push_back(c);
    } else {
      text.push_back(static_cast<char>(0xc0 | byte >> 6));
      text.push_back(static_cast<char>(0x80 | (byte & 0x3f)));
    }
  }
  return text;
}

}  // namespace

template <class Int>
void Writer::raw(Int value) {
  for (std::size_t i = 0; i < sizeof(Int); ++i)
    out_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
}

void Writer::global(std::string_view module, std::string_view name) {
  op(Op::kGlobal);
  out_.append(module).append("\n").append(name).append("\n");
}

void Writer::integer(std::int64_t value) {
  if (value >= 0 && value < 256) {
    op(Op::kBinInt1);
    raw(static_cast<std::uint8_t>(value));
  } else if (value >= 0 && value < 65536) {
    op(Op::kBinInt2);
    raw(static_cast<std::uint16_t>(value));
  } else if (value == static_cast<std::int32_t>(value)) {
    op(Op::kBinInt);
    raw(static_cast<std::uint32_t>(value));
  } else {
    op(Op::kLong1);
    raw(std::uint8_t{8});
    raw(static_cast<std::uint64_t>(value));
  }
}

void Writer::number(double value) {
  op(Op::kBinFloat);
  raw(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
}

Status Writer::text(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max())
    return usage("a text of " + std::to_string(text.size()) + " bytes, more than 32 bits count");
  if (!is_utf8(text)) return usage("a text that is not UTF-8; use bytes");
  op(Op::kBinUnicode);
  raw(static_cast<std::uint32_t>(text.size()));
  out_.append(text);
  return {};
}

Status Writer::bytes(const std::string& bytes) {
  global("_codecs", "encode");
  LOCKSTEP_TRY(text(utf8_of_latin1(bytes)));
  LOCKSTEP_TRY(text("latin1"));
  op(Op::kTuple2);
  op(Op::kReduce);
  return {};
}

Status Writer::sequence(const Sequence& sequence) {
  if (!sequence.is_tuple) op(Op::kEmptyList);
  if (sequence.is_tuple && sequence.items.empty()) op(Op::kEmptyTuple);
  if (sequence.items.empty()) return {};
  op(Op::kMark);
  for (const Value& item : sequence.items) LOCKSTEP_TRY(value(item));
  op(sequence.is_tuple ? Op::kTuple : Op::kAppends);
  return {};
}

Status Writer::set(const Set& set) {
  if (set.frozen) return usage("a frozenset has no form that weights_only reads");
  global("__builtin__", "set");
  LOCKSTEP_TRY(sequence({false, set.items}));
  op(Op::kTuple1);
  op(Op::kReduce);
  return {};
}

Status Writer::dict(const Dict& dict) {
  if (dict.ordered) {
    global("collections", "OrderedDict");
    op(Op::kEmptyTuple);
    op(Op::kReduce);
  } else {
    op(Op::kEmptyDict);
  }
  if (!dict.pairs.empty()) {
    op(Op::kMark);
    for (const auto& [key, item] : dict.pairs) {
      LOCKSTEP_TRY(value(key));
      LOCKSTEP_TRY(value(item));
    }
    op(Op::kSetItems);
  }
  if (dict.attributes.is_none()) return {};
  if (!dict.ordered) return usage("only an OrderedDict has attributes");
  LOCKSTEP_TRY(value(dict.attributes));
  op(Op::kBuild);
  return {};
}

Status Writer::value(const Value& value) {
  if (depth_ == kMaxDepth)
    return usage("it is nested more than " + std::to_string(kMaxDepth) +
                 " deep, or contains itself");
  ++depth_;
  Status written = any(value);
  --depth_;
  return written;
}

Status Writer::any(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return op(Op::kNone), Status();
    case Kind::kBool:
      return boolean(*value.boolean()), Status();
    case Kind::kInt:
      return integer(*value.integer()), Status();
    case Kind::kFloat:
      return number(*value.number()), Status();
    case Kind::kStr:
      return text(*value.str());
    case Kind::kBytes:
      return bytes(*value.bytes());
    case Kind::kSequence:
      return sequence(*value.sequence());
    case Kind::kSet:
      return set(*value.set_value());
    case Kind::kDict:
      return dict(*value.dict_value());
    case Kind::kObject:
      if (write_object_) return write_object_(*this, value);
  }
  return usage(value.type() + " has no form in Python that we write");
}

Result<std::string> write(const Value& root, const WriteObject& write_object) {
  Writer writer(write_object);
  writer.op(Op::kProto);
  writer.raw(std::uint8_t{2});
  LOCKSTEP_TRY(writer.value(root));
  writer.op(Op::kStop);
  return std::move(writer.out_);
}

}  // namespace lockstep::pickle
