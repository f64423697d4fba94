// The fields of items and stamps, in the order of the wire (base/wire.h), for all messages that
// have some; coord/fields.h has those of tables and stays. One function serves writer and reader.
//
// Threads: any. Errors: the reader's.
#pragma once

#include <type_traits>

#include "base/wire.h"
#include "coord/fields.h"
#include "link/item.h"
#include "link/rounds.h"

namespace lockstep::link {

template <Is<Item> M>
void fields(auto& io, M& item) {
  io.one_of(item.kind, Kind::kImage);
  io(item.txn);
  const bool is_node = item.kind == Kind::kNode, is_chunk = item.kind == Kind::kChunk;
  const bool is_single = item.kind == Kind::kTable || item.kind == Kind::kBuffers ||
                         item.kind == Kind::kLoading || item.kind == Kind::kImage;
  if (is_of_host(item.kind)) io(item.host);
  if (is_node || item.kind == Kind::kReady) io(item.level);
  if (is_node) io(item.node);
  if (is_node || is_chunk) io(item.bucket);
  if (!is_single) io(item.index);
}
template <Is<Stamp> M>
void fields(auto& io, M& stamp) {
  io(stamp.term), io(stamp.seq);
}
template <Is<Fills::Send> M>
void fields(auto& io, M& send) {
  io(send.to), fields(io, send.item);
}
// Of a list: WireWriter::list(items, kEach).
inline constexpr auto kEach = [](auto& io, auto& one) {
  if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(one)>>)
    io(one);
  else
    fields(io, one);
};

}  // namespace lockstep::link
