// Who owns which item of a transaction. Pure functions of a published table and a board's ordered
// list of deaths (docs/design/protocol.md, "Ownership").
//
// Two levels: items go over hosts by the hosts' deaths alone, so all boards agree on them; inside a
// host by the whole list, which its own board has. A worker's death never leaves its host.
//
// Threads: values. Errors: none; broken preconditions are checked by assert.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coord/table.h"
#include "coord/tree.h"

namespace lockstep::coord {

// Items in contiguous blocks over holders, in proportion to their weights; a lost holder's go, in
// order, to the live ones that have the fewest for their weight (ties: the first).
class Blocks {
 public:
  // Blocks over the sum of the weights (items % sum of them are one longer), put together.
  Blocks(std::uint32_t first, std::uint32_t items, std::span<const std::uint32_t> weights);

  // Ascending; then what it took over, in that order.
  const std::vector<std::uint32_t>& items_of(std::uint32_t holder) const { return items_[holder]; }
  std::uint32_t first(std::uint32_t holder) const { return first_[holder]; }
  std::uint32_t size(std::uint32_t holder) const { return size_[holder]; }
  const std::vector<std::uint32_t>& live() const { return live_; }  // ascending
  bool alive(std::uint32_t holder) const;

  // What it held, in order, which the caller gives to others; what the last one held stays with it.
  std::vector<std::uint32_t> lose(std::uint32_t holder);
  // Gives an item to whom it is due; with nobody alive, to the holder that was lost last. Who that
  // is.
  std::uint32_t give(std::uint32_t item);

 private:
  std::vector<std::uint32_t> weights_, first_, size_, live_;
  std::vector<std::vector<std::uint32_t>> items_;
  std::uint32_t last_lost_ = 0;
};

// Ownership of one transaction's items, as the board of one host knows it.
class Ownership {
 public:
  // `items`: V for a step, the number of batches for an epoch's end. `self`: the board's host.
  // `deaths`: uids of this board's workers, and of hosts (death_of), in the order in which it
  // appended them; those not in the table are ignored. Hosts share the items in proportion to the
  // workers they were asked for, and chunks of sums evenly; each host's members share its block
  // evenly. What the living own never moves.
  // Precondition: 1 <= members <= kMaxMembers, as many hosts as have members, in their order.
  Ownership(const Table& table, std::uint32_t items, Stay self, std::span<const WorkerUid> deaths);

  // Of another host's member: whether its host is.
  bool alive(std::uint32_t member) const { return alive_[member]; }
  // Of this host.
  std::uint32_t live_count() const;
  // The first live host's first live member: publishes the next table. Of another host: its first
  // one. None: no host is alive, or the first that is is this one, and nobody of it.
  std::optional<std::uint32_t> first_live() const;

  // Index in the table's hosts; with none named there, 0.
  std::uint32_t host_of(std::uint32_t item) const { return host_of_[item]; }
  bool is_here(std::uint32_t member) const { return host_of_member_[member] == self_; }

  // Of an item of another host: as if all its workers lived.
  std::uint32_t owner(std::uint32_t item) const { return owner_[item]; }
  // The member's own block, ascending; then what it took over, in that order.
  const std::vector<std::uint32_t>& items_of(std::uint32_t member) const;
  // Of its own block, whoever has taken that over.
  std::uint32_t block_size(std::uint32_t member) const;
  std::uint32_t block_first(std::uint32_t member) const;

  // A node whose value one member supplies, or another host.
  struct Piece {
    Node node;
    std::uint32_t member = 0;  // index into Table::members; of another host: its first one
  };
  // Left to right; together they cover the leaves of all that live. A block is folded into
  // cover(block); what was taken over comes leaf by leaf, so that what has been published stays as
  // it is.
  std::vector<Piece> pieces() const;

  // Owner of fixed chunk `chunk` of a bucket of `chunks` chunks; `bucket` spreads buckets of few
  // chunks. Moves only when its owner dies. Of another host's: any of its members.
  std::uint32_t chunk_owner(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket) const;
  // This host's member that alone reads this chunk of what the host's members supply: it sums it
  // where the host owns it, else it folds it for the host that does. Moves only when it dies: a
  // chunk that comes to this host from a dead one is summed by whoever has folded it.
  // Precondition: this host is in the table.
  std::uint32_t chunk_reader(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket) const;

  // The nodes of this host's block, left to right: what its members' pieces are folded into for
  // other hosts. With one host there is nobody to fold for: none.
  std::vector<Node> folded() const;
  // A leaf of this host's block, whoever has it by now; else, if it is this host's, it was taken
  // over from another one.
  bool in_block(std::uint32_t item) const;

 private:
  struct ChunkPlace {
    std::uint32_t host = 0, chunk = 0, chunks = 1;  // the host's own ones, numbered from 0
  };
  ChunkPlace place_of_chunk(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket) const;
  struct Loss {
    std::uint32_t host = 0;
    std::optional<std::uint32_t> member;  // none: the host
    std::vector<std::uint32_t> hosts;     // alive afterwards,
    std::vector<std::uint32_t> here;      // and of this host's members
  };
  std::uint32_t place_of(std::uint32_t member) const;  // among its host's
  void give(std::uint32_t item, std::uint32_t host);
  void lose(std::uint32_t host, std::optional<std::uint32_t> member);

  std::uint32_t items_;
  std::uint32_t self_ = 0;  // index in the table's hosts; as many as there are: it is not in it
  std::vector<std::uint32_t> host_of_member_;
  std::vector<std::vector<std::uint32_t>> members_of_;  // of each host
  std::vector<bool> alive_;
  std::vector<std::uint32_t> host_of_, owner_;  // of items
  Blocks hosts_;
  std::vector<Blocks> inside_;  // of each host: over its members
  std::vector<Loss> losses_;
};

using Piece = Ownership::Piece;

}  // namespace lockstep::coord
