#include "carrier/inlet.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "links/links.h"

namespace lockstep::carrier {
namespace {

using Fate = link::Landings::Fate;
using link::FrameHead;
using link::Kind;

std::string name_of(const link::Item& item) {
  return std::string("a ") + link::kKindNames[static_cast<int>(item.kind)] + " of transaction " +
         std::to_string(item.txn.value());
}

// Nobody of this run is so far ahead: it would lie where this board has something it needs. But of
// one that nobody waits for.
bool is_too_far(link::Memory& memory, const link::Item& item) {
  if (memory.first() == link::kNever) return false;
  const std::uint64_t room =
      item.kind == Kind::kTable ? std::uint64_t{coord::kTables} : coord::kGenerations;
  if (item.txn.value() < memory.first_not_whole() + room || !memory.is_listed()) return false;
  memory.look();
  return item.txn.value() >= memory.first_not_whole() + room;
}

bool begins_later(std::uint64_t before, std::uint64_t now) {
  return now != link::kNever && (before == link::kNever || now > before);
}

}  // namespace

Result<Inlet::Place> Inlet::landing(const Board& board, link::HostIndex from,
                                    std::string_view header, std::size_t bytes) {
  const auto head = link::decode_head(header);
  if (!head.ok()) return head.error();
  const bool goes_on = in_item_ && head->what == FrameHead::What::kItem &&
                       head->item == head_.item && head->flags == head_.flags &&
                       head->offset == come_;
  if (in_item_ && !goes_on) return bad_data(name_of(head_.item) + " breaks off");
  head_ = *head;
  if (!greeted_ && head_.what != FrameHead::What::kHave)
    return bad_data("the first frame is no Have");
  if (head_.what != FrameHead::What::kHave && is_too_far(board.memory, head_.item))
    return bad_data(name_of(head_.item) + ", and this board is in transaction " +
                    std::to_string(board.memory.first_not_whole()));
  if (head_.what == FrameHead::What::kItem && head_.item.kind == Kind::kImage)
    return image_slice(board, from, bytes);
  if (head_.what != FrameHead::What::kItem) {
    text_.resize(bytes);
    return Place(std::as_writable_bytes(std::span(text_)));
  }
  // What is whole here is of no use, and the table that says how large it is may be gone. Members
  // may wait for this one all the same.
  const bool is_needed = goes_on || head_.item.kind == Kind::kJudged ||
                         head_.item.txn.value() >= board.memory.first_not_whole();
  if (!is_needed) return Place();
  if (!goes_on) LOCKSTEP_TRY(begin_item(board, from));
  return go_on(bytes);
}

Status Inlet::begin_item(const Board& board, link::HostIndex from) {
  const link::Item& item = head_.item;
  if (!link::is_of(board.plan, item)) return bad_data(name_of(item) + " is not in the plan");
  if (head_.offset != 0) return bad_data(name_of(item) + " does not begin at its first byte");
  if (item.kind == Kind::kNode && item.host != from)
    return bad_data("a node of host " + std::to_string(item.host) + "'s");
  if (head_.flags != 0 && item.kind != Kind::kChunk)
    return bad_data(name_of(item) + " with a chunk's flags");
  const Place place = board.memory.place(item);
  if (!place) return bad_data(name_of(item) + " has no place on this board");
  size_ = (head_.flags & link::kLeftOut) != 0 ? 0 : place->size();
  fate_ = board.landings.begin(board.memory, item, from);
  place_ = place->first(size_);
  if (fate_ == Fate::kAside) {
    if (aside_items_.size() >= kMostAside)
      return bad_data(std::to_string(kMostAside) + " items wait for places that others land in");
    aside_ = {item, head_.flags, std::string(size_, '\0')};
    place_ = std::as_writable_bytes(std::span(aside_.bytes));
  }
  in_item_ = true;
  come_ = 0;
  return {};
}

Result<Inlet::Place> Inlet::go_on(std::size_t bytes) {
  const std::size_t wanted = std::min(links::kMostBodyBytes, size_ - come_);
  if (bytes != wanted)
    return bad_data(name_of(head_.item) + " has " + std::to_string(bytes) + " bytes from byte " +
                    std::to_string(come_) + " on, not " + std::to_string(wanted));
  const auto slice = place_.subspan(come_, bytes);
  come_ += bytes;
  if (fate_ == Fate::kBin) return Place();
  return Place(slice);
}

// The first one begins anew, whatever has come of another copy. Where this board has it, needs none
// or another host's is landing, it goes into the bin: who needs one is sent a newer one.
Result<Inlet::Place> Inlet::image_slice(const Board& board, link::HostIndex from,
                                        std::size_t bytes) {
  const link::Item& item = head_.item;
  if (!link::is_of(board.plan, item) || item.host != from || head_.flags != 0)
    return bad_data(name_of(item) + " that cannot be");
  if (head_.offset == 0 && (bytes > 0 || !image_)) {
    if (image_ && image_->lands) board.landings.end(image_->item);
    image_ = Image{.item = item, .place = {}};
    image_->lands = board.landings.begin(board.memory, item, from) == Fate::kLands;
    const Place place = image_->lands ? board.memory.place(item) : Place();
    if (place) image_->place = *place;
    if (image_->lands && !place) board.landings.end(item);
    image_->lands = place.has_value();
  }
  if (!image_ || image_->item != item || image_->come != head_.offset)
    return bad_data(name_of(item) + " goes on at byte " + std::to_string(head_.offset) +
                    ", not where it was");
  const bool fits = bytes <= image_->place.size() - std::min(image_->come, image_->place.size());
  if (image_->lands && !fits)
    return bad_data(name_of(item) + " has more than " + std::to_string(image_->place.size()) +
                    " bytes");
  image_->come += bytes;
  if (!image_->lands) return Place();
  return Place(image_->place.subspan(image_->come - bytes, bytes));
}

Result<Inlet::Come> Inlet::end_image(const Board& board) {
  const bool is_end = image_->come == head_.offset;  // the empty slice
  if (!is_end) return Come{};
  const Image image = *std::exchange(image_, std::nullopt);
  if (!image.lands) return Come{};
  board.landings.end(image.item);
  if (image.come != image.place.size())
    return bad_data(name_of(image.item) + " ends after " + std::to_string(image.come) +
                    " bytes, not " + std::to_string(image.place.size()));
  board.memory.landed(image.item, link::kPlain);
  return Come{{}, image.item};
}

Result<Inlet::Come> Inlet::landed(const Board& board) {
  if (head_.what == FrameHead::What::kItem && head_.item.kind == Kind::kImage)
    return end_image(board);
  if (head_.what == FrameHead::What::kTable) return end_table(board);
  if (head_.what == FrameHead::What::kHave) {
    auto have = link::decode_have(text_, &board.plan);
    if (!have.ok()) return have.error();
    if (greeted_ && !begins_later(*greeted_, have->first))
      return bad_data("a second Have, of a board that begins where it did");
    greeted_ = have->first;
    return Come{*std::move(have), {}};
  }
  if (!in_item_ || come_ < size_) return Come{};
  in_item_ = false;
  if (fate_ == Fate::kAside) {
    aside_items_.push_back(std::exchange(aside_, {}));
    return Come{};
  }
  if (fate_ == Fate::kLands) {
    board.memory.landed(head_.item, head_.flags);
    board.landings.end(head_.item);
  }
  return Come{{}, head_.item};
}

Result<Inlet::Come> Inlet::end_table(const Board& board) {
  const auto table = link::decode_table(text_);
  if (!table.ok()) return table.error();
  if (table->txn != head_.item.txn) return bad_data(name_of(head_.item) + " is of another one");
  const link::Contents& most = board.plan.contents(table->txn.value());
  if (table->parts.items > (table->parts.is_step ? most.records : most.cells))
    return bad_data(name_of(head_.item) + " says " + std::to_string(table->parts.items) +
                    " items, more than the plan has");
  if (!link::has(board.memory, head_.item)) board.memory.landed(*table);
  return Come{{}, head_.item};
}

bool Inlet::settle(const Board& board, link::HostIndex from) {
  bool any = false;
  std::erase_if(aside_items_, [&](const Aside& aside) {
    const Fate fate = board.landings.begin(board.memory, aside.item, from);
    if (fate == Fate::kAside) return false;
    any = true;
    if (fate == Fate::kBin) return true;
    const auto place = board.memory.place(aside.item);
    if (place && !aside.bytes.empty())
      std::memcpy(place->data(), aside.bytes.data(), aside.bytes.size());
    board.memory.landed(aside.item, aside.flags);
    board.landings.end(aside.item);
    return true;
  });
  return any;
}

void Inlet::close() { *this = Inlet(); }

}  // namespace lockstep::carrier
