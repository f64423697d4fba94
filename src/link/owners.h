// Which host owns an item: coord::Ownership as all boards see it that have appended the same hosts.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coord/ownership.h"
#include "coord/table.h"
#include "link/item.h"
#include "link/marks.h"

namespace lockstep::link {

using coord::Stay;

// Of one transaction's items.
class Owners {
 public:
  // Of `deaths` only those of hosts count. `contents`: as the plan has them.
  Owners(const coord::Table& table, const Contents& contents, std::span<const WorkerUid> deaths);

  // None: all hosts of the table are dead, or the transaction has no such item. Of nodes: no
  // meaning, see nodes().
  std::optional<Stay> owner(const Item& item) const;
  // The nodes of the tree whose values a host supplies; none of a dead one's.
  const std::vector<coord::Node>& nodes(Stay host) const;
  const Contents& contents() const { return contents_; }  // as the table has them

 private:
  Contents contents_;
  std::optional<Stay> first_;
  std::vector<Stay> shares_;
  std::vector<std::vector<Stay>> chunks_;  // of each bucket
  std::map<Stay, std::vector<coord::Node>> nodes_;
};

// Those of a board, made once for each table and list of deaths.
class BoardOwners {
 public:
  explicit BoardOwners(const Plan& plan) : plan_(plan) {}
  // Precondition: the table of txn is on the board. Good until the next call.
  const Owners& at(const Marks& marks, std::uint64_t txn);

 private:
  struct Entry {
    std::size_t deaths = 0;
    std::unique_ptr<const Owners> owners;
  };
  const Plan& plan_;
  std::map<std::uint64_t, Entry> entries_;
};

bool takes_part(const coord::Table& table, Stay host);

}  // namespace lockstep::link
