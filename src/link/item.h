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

// Of these, all but nodes have a place in Have.
enum class Kind : std::uint8_t { kTable, kChunk, kRecord, kBuffers, kRow, kCell, kNode };
inline constexpr const char* kKindNames[] = {"table", "chunk", "record", "buffers",
                                             "row",   "cell",  "node"};

struct Item {
  Txn txn = Txn(0);  // of a table: the transaction that it is for
  Kind kind = Kind::kTable;
  std::uint16_t host = 0;    // node: the host that supplies it, whose places these are
  std::uint32_t level = 0;   // node: of the tree (coord::Node),
  std::uint32_t node = 0;    //   and its index there
  std::uint32_t bucket = 0;  // chunk, node
  std::uint32_t index = 0;   // chunk, node: chunk; record, row: virtual worker; cell: batch
  friend auto operator<=>(const Item&, const Item&) = default;
};

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
      item.txn = Txn(0);
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
