// A pair of hosts' links: what one sends to the other, and where a frame that comes may land
// (docs/design/hosts.md, "Pairs").
//
// Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "link/have.h"
#include "link/item.h"
#include "link/marks.h"
#include "link/owners.h"
#include "link/rounds.h"

namespace lockstep::link {

// What a link's agent tells it, before it dials or accepts and then at each change.
struct Orders {
  Stamp round = {};                    // the newest
  std::vector<HostIndex> closed = {};  // no pair to them
  std::vector<Stay> out = {};          // being taken out: no more than fills, on neither side
  std::vector<Fills::Send> fills = {};
};

// One direction: what this host sends, and what it knows of the other.
class Pair {
 public:
  Pair(Stay self, Stay other) : self_(self), other_(other) {}
  virtual ~Pair() = default;

  // Made, or made again: the other's Have has come. Nothing is sent before.
  void open(const Have& theirs);
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  // A new round's fills take the place of all older ones.
  void obey(const Orders& orders);

  // All that may be sent now, in the order of need: fills, then what this host owns and the other
  // lacks, last a copy of the state where the other comes. A table goes before what is made under
  // it. Empty while the pair is not open.
  std::vector<Item> sendable(const Marks& marks, BoardOwners& owners) const;
  void sent(const Item& item);
  // The other is a newcomer, which has the state of the start of this transaction and gets its
  // items, although no table lists it yet. None: it is one no more.
  void comes(std::optional<std::uint64_t> txn);
  // A table, or kJudged, has come from the other side.
  void came(const Item& item) { know(item); }

 protected:
  // The other may have this transaction's items.
  virtual bool serves(const Marks& marks, const coord::Table& table) const;
  // The other has the table.
  virtual bool has_table(std::uint64_t txn) const { return knows(table_of(txn)); }

 private:
  bool knows(const Item& item) const;
  void know(const Item& item);
  void find_due();
  std::optional<Item> table_first(const Marks& marks, std::uint64_t txn) const;
  void add_own(const Marks& marks, const Owners& owners, std::uint64_t txn,
               std::vector<Item>& items) const;
  void add_newcomers(const Marks& marks, std::vector<Item>& items) const;
  void add_judged(const Marks& marks, std::vector<Item>& items) const;
  void add_image(const Marks& marks, std::vector<Item>& items) const;
  bool is_gone(const Marks& marks, Stay stay) const;
  std::vector<Item>& wanted(const Owners& owners, std::uint64_t txn, std::size_t deaths) const;

  Stay self_, other_;
  bool open_ = false;
  std::optional<std::uint64_t> coming_;
  std::uint64_t lowest_ = 0;                  // of its Have
  std::unordered_set<Item, ItemHash> known_;  // in its Have, sent, or, of tables, come
  std::vector<Stay> out_;
  std::vector<Item> fills_;  // as the leader has told
  std::set<Item> due_;       // of them, not sent on this connection
  // Of a transaction what this host owns, and its nodes of what the other owns, without what it
  // knows that the other has: so that asking again costs a look at what is left.
  struct Wanted {
    std::size_t deaths = 0;  // on the board
    std::vector<Item> items;
  };
  mutable std::map<std::uint64_t, Wanted> wanted_;
};

// What comes in, of all pairs of one link: at any moment at most one landing in a place.
class Landings {
 public:
  enum class Fate {
    kLands,  // until end() or drop()
    kAside,  // another lands there: into a side buffer, and asked again when that has ended
    kBin,    // the board has it
  };
  Fate begin(const Marks& marks, const Item& item, HostIndex from);
  void end(const Item& item) { landing_.erase(place_of(item)); }  // its mark is set
  // The pair is closed: what was landing from there stays unmarked.
  void drop(HostIndex from);

 private:
  std::map<Item, HostIndex> landing_;  // by place
};

}  // namespace lockstep::link
