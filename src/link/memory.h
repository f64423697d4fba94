// The memory behind a board's marks, as the link uses it: where what is sent lies, and where what
// comes lands (docs/design/hosts.md, "Links").
//
// Threads: the link's one; members of the host write the same board meanwhile. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "coord/table.h"
#include "link/item.h"
#include "link/marks.h"

namespace lockstep::link {

// What is said of an item beside its bytes; of chunks alone.
enum Flags : std::uint8_t {
  kPlain = 0,
  kNotFinite = 1,  // an element is infinite, or no number
  kLeftOut = 2,    // of a bucket that has no sum in this transaction: no bytes
};
inline constexpr std::uint8_t kAllFlags = kNotFinite | kLeftOut;

// Also of what the plan does not have, mark() says 0: it may come from another host.
class Memory : public Marks {
 public:
  // What others have written meanwhile: tables, deaths and what is whole are as of then, or of the
  // last landed().
  virtual void look() {}
  // Of an item that is marked, but no table: its bytes, where they lie, without the mark.
  struct Value {
    std::span<const std::byte> bytes;
    std::uint8_t flags = kPlain;
  };
  virtual Value value(const Item& item) const = 0;
  // Where it lands: all bytes that it has by the plan (value() has as many, or none where it is
  // left out). None: this board has no such place. Precondition: the plan has such an item.
  virtual std::optional<std::span<std::byte>> place(const Item& item) = 0;
  // What lies in its place is whole: stores what the flags say, then the mark, and rings those
  // members that may wait for it.
  virtual void landed(const Item& item, std::uint8_t flags) = 0;
  // A table from another host: written, then marked, and all are rung.
  virtual void landed(const coord::Table& table) = 0;
};

}  // namespace lockstep::link
