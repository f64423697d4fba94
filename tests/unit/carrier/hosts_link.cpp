// The link of a host of these tests.
#include <cstring>
#include <utility>

#include "hosts.h"

namespace lockstep::carrier {
namespace {

// As a socket does, unseen by sanitizers: what nobody waits for any more may be written over while
// it is sent. Whoever gets it has the chunk that it is a part of.
__attribute__((no_sanitize("thread"))) std::vector<std::byte> copy_of(
    std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.size());
  const volatile std::byte* const from = bytes.data();
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = from[i];
  return copy;
}

}  // namespace

void Host::serve() {
  for (;;) {
    const std::uint32_t seen = memory_->bell().rings.load(std::memory_order_acquire);
    if (link_ends_) return;
    std::deque<std::function<void()>> calls;
    {
      const std::lock_guard lock(mutex_);
      calls = std::exchange(calls_, {});
    }
    memory_->look();
    for (const auto& call : calls) call();
    receive();
    memory_->look();
    if (const auto append = rounds_->append(*memory_)) {
      std::vector<WorkerUid> deaths;
      for (const link::Stay stay : append->hosts) deaths.push_back(coord::death_of(stay));
      workers_->append(deaths);
      appended_ = append->told;
      memory_->look();
    }
    send();
    wait(memory_->bell(), seen, conformance::soon());
  }
}

void Host::receive() {
  std::deque<std::pair<std::uint32_t, Frame>> frames;
  {
    const std::lock_guard lock(mutex_);
    frames = std::exchange(inbox_, {});
  }
  for (const auto& [from, frame] : frames) {
    if (!ways_[from].is_open) continue;
    if (frame.have)
      ways_[from].pair->open(*frame.have);
    else
      land(from, frame);
  }
}

void Host::land(std::uint32_t from, const Frame& frame) {
  using Fate = link::Landings::Fate;
  if (frame.item.kind == link::Kind::kTable) ways_[from].pair->came(frame.item);
  const Fate fate = landings_.begin(*memory_, frame.item, static_cast<link::HostIndex>(from));
  ASSERT_NE(fate, Fate::kAside) << "each landing ends at once";
  if (fate == Fate::kBin) return;
  if (frame.table) {
    memory_->landed(*frame.table);
  } else {
    const auto place = memory_->place(frame.item);
    ASSERT_TRUE(place);
    if ((frame.flags & link::kLeftOut) == 0) {
      ASSERT_EQ(place->size(), frame.bytes.size());
      std::memcpy(place->data(), frame.bytes.data(), frame.bytes.size());
    }
    memory_->landed(frame.item, frame.flags);
  }
  landings_.end(frame.item);
}

void Host::send() {
  for (std::uint32_t to = 0; to < ways_.size(); ++to) {
    if (to == index_ || !ways_[to].is_open) continue;
    link::Pair& pair = *ways_[to].pair;
    for (auto items = pair.sendable(*memory_, *owners_); !items.empty();
         items = pair.sendable(*memory_, *owners_))
      for (const link::Item& item : items) {
        Frame frame{.have = {}, .item = item, .bytes = {}, .table = {}};
        if (item.kind == link::Kind::kTable) {
          frame.table = *memory_->table(item.txn.value());
        } else {
          const link::Memory::Value value = memory_->value(item);
          frame.flags = value.flags;
          frame.bytes = copy_of(value.bytes);
        }
        pair.sent(item);
        ++machines_.frames_;
        if (item.kind == link::Kind::kNode && item.level > 0) ++machines_.folded_;
        if (!is_lost(to, item)) machines_.hosts_[to]->deliver(index_, std::move(frame));
      }
  }
}

// Of what a dying host sends last some get nothing, the others a part or all.
bool Host::is_lost(std::uint32_t to, const link::Item& item) {
  const auto dies = [this](std::uint64_t txn) {
    return workers_->dies_whole(txn) && workers_->death_of(0, txn) != Death::kAfterWhole;
  };
  if (!dies(item.txn.value()) && !dies(item.txn.value() - 1)) return false;
  const std::uint64_t random = conformance::mix(machines_.shape_.seed * 31 + to);
  if ((machines_.shape_.seed + to) % 2 == 0) return true;
  return random % 4 == 0 && ++ways_[to].last_words > random / 4 % 40;
}

void Host::obey() {
  const link::Orders& orders = rounds_->orders();
  for (const link::HostIndex closed : orders.closed) {
    ways_[closed].is_open = false;
    ways_[closed].pair->close();
    landings_.drop(closed);
  }
  for (Way& way : ways_) way.pair->obey(orders);
}

}  // namespace lockstep::carrier
