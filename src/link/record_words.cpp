#include "link/record_words.h"

#include "base/errors.h"
#include "link/fields.h"
#include "link/messages.h"

namespace lockstep::link {
namespace {

using link::fields;

template <Is<WantRecords> M>
void fields(auto& io, M& want) {
  fields(io, want.who), io.one_of(want.file, RecordsOf::kMetrics);
  io(want.from), io(want.skip), io(want.near);
}
template <Is<RecordsPiece> M>
void fields(auto& io, M& piece) {
  fields(io, piece.of), io(piece.upto), io(piece.bytes);
}

bool can_be(const WantRecords& want) {
  return want.from.value() <= kMaxTxn && want.skip <= kMaxTxn;
}

bool can_be(const RecordsPiece& piece) {
  return can_be(piece.of) && piece.upto.value() <= kMaxTxn && piece.bytes.size() <= kMaxPieceBytes;
}

}  // namespace

std::string encode(const RecordMessage& message) {
  WireWriter io;
  io(static_cast<std::uint8_t>(message.index()));
  std::visit([&io](const auto& one) { fields(io, one); }, message);
  return io.take();
}

Result<RecordMessage> decode_records(std::string_view bytes) {
  WireReader io(bytes);
  std::uint8_t type = 0;
  io(type);
  if (!io.fault().empty() || type >= std::variant_size_v<RecordMessage>)
    return bad_data("a message of records has no type that there is");
  auto message =
      read_alternative<RecordMessage>(io, type, [](WireReader& in, auto& one) { fields(in, one); });
  if (!io.fault().empty()) return bad_data("a message of records: " + io.fault());
  if (!std::visit([](const auto& one) { return can_be(one); }, message))
    return bad_data("a message of records has numbers that there cannot be");
  return message;
}

}  // namespace lockstep::link
