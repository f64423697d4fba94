// Items, Have, tables and a round's messages as bytes (base/wire.h): what links say to each other,
// and the leader's agent and the others.
//
// Of an item its kind and then the fields that it needs; of a Have's items, runs of those that
// follow one another. So whoever reads them needs no plan, which it may not have yet.
//
// From tables that have been read coord::Ownership can be made; whether there are such items, the
// plan has to say. Ownership: values. Errors: kBadData for what cannot be read, kUsage for what is
// too long. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "coord/fields.h"
#include "coord/table.h"
#include "link/have.h"
#include "link/item.h"
#include "link/marks.h"
#include "link/rounds.h"
#include "lockstep/status.h"

namespace lockstep::link {

// Of one message between agents; a frame of theirs has as many (control/connection.h).
inline constexpr std::size_t kMaxRoundBytes = std::size_t{1} << 20;
using coord::kMaxTxn;

bool is_of(const Plan& plan, const Item& item);

// The header of a frame on a link.
struct FrameHead {
  // The body is:
  enum class What : std::uint8_t {
    kHave,   // a Have: first of all on a connection, and where the board begins later
    kTable,  // the table of item.txn
    kItem,   // bytes of the item, from `offset` on; the last of them makes it whole
  };
  What what = What::kHave;
  Item item;
  std::uint8_t flags = 0;  // link::Flags
  std::uint64_t offset = 0;
  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};
std::string encode(const FrameHead& head);
Result<FrameHead> decode_head(std::string_view bytes);

// Of more than kMaxRoundBytes: kUsage. It names kMaxHaveItems at most.
inline constexpr std::size_t kMaxHaveItems = coord::kMaxItems;
Result<std::string> encode(const Have& have);
// `plan`: what it names is of it. A few bytes can name as many items as there are.
Result<Have> decode_have(std::string_view bytes, const Plan* plan = nullptr);

std::string encode(const coord::Table& table);
Result<coord::Table> decode_table(std::string_view bytes);

// Of a table but for its transaction: most that follow one another are the same.
std::uint64_t content_of(coord::Table table);

using RoundMessage = std::variant<Round, Answer, Fills, Appended, Promise>;
Result<std::string> encode(const RoundMessage& message);
Result<RoundMessage> decode_round(std::string_view bytes);

}  // namespace lockstep::link
