#include "carrier/outlet.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace lockstep::carrier {
namespace {

using link::FrameHead;
using links::kMostBodyBytes;

// Asking for more costs a look at all marks of the board; less keeps the order of need.
constexpr std::size_t kBatch = 64;

}  // namespace

void Outlet::obey(const link::Orders& orders) {
  pair_.obey(orders);
  next_.clear();
}

// A board that begins behind 0 is a newcomer's, or was one's, or a link was started again there:
// what comes from there on is for it, whatever tables say, until it is out. Where no table lists it
// nobody waits until it has that: what is written over meanwhile all those have applied whom a
// table lists, so that nobody asks it for it.
void Outlet::open(const link::Have& theirs) {
  next_.clear();
  image_sent_ = 0;
  pair_.open(theirs);
  const bool begins_somewhere = theirs.first != 0 && theirs.first != link::kNever;
  pair_.comes(begins_somewhere ? std::optional(theirs.first) : std::nullopt);
}

void Outlet::close() {
  next_.clear();
  pair_.close();
}

void Outlet::send(links::Links& links, const link::Memory& memory, link::BoardOwners& owners) {
  const std::size_t deaths = memory.deaths().size();
  if (deaths != deaths_) next_.clear();
  deaths_ = deaths;
  while (pair_.is_open() && links.unsent(host_) < links::kEnoughUnsent) {
    if (next_.empty()) {
      const std::vector<link::Item> all = pair_.sendable(memory, owners);
      if (all.empty()) return;
      next_.assign(all.begin(),
                   all.begin() + static_cast<std::ptrdiff_t>(std::min(kBatch, all.size())));
    }
    const link::Item item = next_.front();
    next_.pop_front();
    if (item.kind == link::Kind::kImage) {
      if (!send_image(links, memory, item)) return;
      continue;
    }
    // Where it is not there any more, nobody needs it.
    if (memory.mark(item) != item.txn.value() + 1) continue;
    send(links, memory, item);
    pair_.sent(item);
  }
}

// One slice, and whatever else there is before the next. Its donor may write a newer copy over it
// at any moment, and unmarks it first: so the end is said once all that went before is on its way,
// and the copy is still marked. False: that is to be waited for.
bool Outlet::send_image(links::Links& links, const link::Memory& memory, const link::Item& item) {
  const auto slice = [&](std::span<const std::byte> bytes) {
    links.send(host_, link::encode(FrameHead{FrameHead::What::kItem, item, 0, image_sent_}), bytes);
    image_sent_ += bytes.size();
  };
  if (image_ != item) image_sent_ = 0;
  image_ = item;
  const std::span<const std::byte> all = memory.value(item).bytes;
  if (image_sent_ < all.size()) {
    slice(all.subspan(image_sent_, std::min(kMostBodyBytes, all.size() - image_sent_)));
    return true;
  }
  if (links.unsent(host_) > 0) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (memory.mark(item) == item.txn.value() + 1) {
    slice({});
    pair_.sent(item);
  }
  return true;
}

void Outlet::send(links::Links& links, const link::Memory& memory, const link::Item& item) const {
  if (item.kind == link::Kind::kTable) {
    const coord::Table* table = memory.table(item.txn.value());
    if (table != nullptr)
      links.send_copy(host_, link::encode(FrameHead{FrameHead::What::kTable, item}),
                      link::encode(*table));
    return;
  }
  const link::Memory::Value value = memory.value(item);
  std::size_t offset = 0;
  do {
    const auto slice =
        value.bytes.subspan(offset, std::min(kMostBodyBytes, value.bytes.size() - offset));
    const std::string head =
        link::encode(FrameHead{FrameHead::What::kItem, item, value.flags, offset});
    // A record's lie on no board, and not for ever; who comes may read slowly.
    if (item.kind == link::Kind::kRecord)
      links.send_copy(host_, head, {reinterpret_cast<const char*>(slice.data()), slice.size()});
    else
      links.send(host_, head, slice);
    offset += slice.size();
  } while (offset < value.bytes.size());
}

}  // namespace lockstep::carrier
