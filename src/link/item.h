// What travels between the boards of a run's hosts (docs/design/hosts.md): every value of a
// transaction has a name and one content, so it may come from anyone, twice, and late.
//
// Threads: values. Errors: none.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/ids.h"
#include "coord/board.h"

namespace lockstep::link {

enum class Kind : std::uint8_t {
  kTable,
  kChunk,
  kRecord,
  kBuffers,
  kRow,
  kCell,
  // From here on in no Have and no fills; on a new pair it is sent again. First what a host says of
  // itself, which nobody makes anew when the host dies.
  kNode,
  kLoading,  // its newcomers have a copy of the state of the transaction's start to load
  kReady,    // that newcomer has loaded it
  kJudged,   // an older worker has computed this newcomer's share, too; whoever has it says it on
  kImage,    // that host's copy of the state of the transaction's start, for a host that comes
};
inline constexpr const char* kKindNames[] = {"table", "chunk",  "record", "buffers",
                                             "row",   "cell",   "node",   "loading",
                                             "ready", "judged", "image"};
constexpr bool is_in_have(Kind kind) { return kind < Kind::kNode; }
constexpr bool is_of_host(Kind kind) { return !is_in_have(kind) && kind != Kind::kJudged; }

struct Item {
  Txn txn = Txn(0);  // of a table: the transaction that it is for
  Kind kind = Kind::kTable;
  std::uint16_t host = 0;    // of what a host says of itself: that host, whose places these are
  std::uint32_t level = 0;   // node: of the tree (coord::Node); ready: the count of its host's stay
  std::uint32_t node = 0;    // node: its index there
  std::uint32_t bucket = 0;  // chunk, node
  std::uint32_t index = 0;   // chunk, node: chunk; record, row, judged: virtual worker;
                             //   cell: batch; ready: slot
  friend auto operator<=>(const Item&, const Item&) = default;
};

constexpr Item loading_of(std::uint64_t txn, std::uint16_t host) {
  return {.txn = Txn(txn), .kind = Kind::kLoading, .host = host};
}
// The content is the worker's uid: a host that comes back soon gives out the same slots.
constexpr Item ready_of(std::uint64_t txn, coord::Stay stay, std::uint32_t slot) {
  return {
      .txn = Txn(txn), .kind = Kind::kReady, .host = stay.host, .level = stay.count, .index = slot};
}
constexpr Item image_of(std::uint64_t txn, std::uint16_t host) {
  return {.txn = Txn(txn), .kind = Kind::kImage, .host = host};
}
constexpr Item judged_of(std::uint64_t txn, std::uint32_t share) {
  return {.txn = Txn(txn), .kind = Kind::kJudged, .index = share};
}
constexpr Item table_of(std::uint64_t txn) { return {.txn = Txn(txn), .kind = Kind::kTable}; }

// The transaction that it is an item of, whose table says who owns it: of the table of t + 1, t.
// Precondition: not the table of 0, which no transaction makes.
constexpr std::uint64_t made_in(const Item& item) {
  return item.txn.value() - (item.kind == Kind::kTable ? 1 : 0);
}

// Two items with equal places lie in the same memory of a board.
constexpr Item place_of(Item item) {
  switch (item.kind) {
    case Kind::kTable:
      item.txn = Txn(item.txn.value() % coord::kTables);
      break;
    case Kind::kChunk:
    case Kind::kNode:
    case Kind::kLoading:
      item.txn = Txn(0);
      break;
    case Kind::kImage:  // whoever sends it: there is one region
      item.txn = Txn(0);
      item.host = 0;
      break;
    case Kind::kReady:
      item.txn = Txn(0);
      item.level = 0;
      break;
    default:
      item.txn = Txn(item.txn.value() % coord::kGenerations);
  }
  return item;
}

struct ItemHash {
  std::size_t operator()(const Item& item) const {
    std::uint64_t x = item.txn.value();
    for (const std::uint64_t part :
         {std::uint64_t{item.host} << 8 | static_cast<std::uint64_t>(item.kind),
          std::uint64_t{item.level} << 32 | item.node,
          std::uint64_t{item.bucket} << 32 | item.index})
      x = (x ^ part) * 0x9e3779b97f4a7c15 ^ x >> 29;
    return static_cast<std::size_t>(x ^ x >> 32);
  }
};

}  // namespace lockstep::link
