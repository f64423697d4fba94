// Any frames on a link's connections from two hosts that have the right cookie: each lands in its
// place on a real board, or ends its connection. Nothing is written elsewhere, whatever is sent of
// the board lies there, and no frame costs more than its own size.
//
// The input is frames: a byte that says from whom (bit 0), on a new connection (bit 1), that the
// body is as long as its place (bit 2), and that the link sends what there is to be sent (bit 3);
// then a byte with the header's length, the header, and, but for bit 2, two bytes with the body's
// length and the body.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "carrier/board_memory.h"
#include "carrier/carrier.h"
#include "comm/shm/shared_plan.h"
#include "coord/board.h"
#include "link/messages.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::carrier;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr coord::BoardPlan kBoardPlan{.virtual_workers = 4, .ids_capacity = 3, .ring = 8};

// Of a run on three hosts, this one the first; two pages behind it nobody may touch.
class BoardPages {
 public:
  BoardPages() {
    plan_.virtual_workers = 4;
    plan_.buckets = {{comm::DType::kFloat32, 3000}, {comm::DType::kBFloat16, 70}};
    plan_.chunk_bytes = 4096;
    plan_.buffer_bytes = 200;
    plan_.row_bytes = 72;
    plan_.eval_items = 3;
    plan_.note_words = 2;
    plan_.state_bytes = 9000;
    plan_.hosts = 3;
    const coord::Board unmapped(nullptr, kBoardPlan);
    const auto layout = comm::shm::Layout::make(plan_, coord::kBoardBytes / 2);
    require(layout.ok());
    bytes_ = (unmapped.data_offset() + layout->end() + kPage - 1) / kPage * kPage;
    plan_.board_bytes = bytes_;
    void* const at = ::mmap(nullptr, bytes_ + 2 * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(at != MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
    require(::mprotect(base_ + bytes_, 2 * kPage, PROT_NONE) == 0);
  }
  // As its worker has left it that has written the first table.
  std::unique_ptr<BoardMemory> renew() {
    require(::madvise(base_, bytes_, MADV_DONTNEED) == 0);
    const coord::Board board = this->board();
    board.header().hosts.store(plan_.hosts);
    require(comm::shm::share_plan(board, plan_).ok());
    coord::Table table{.txn = Txn(0), .generation = Generation(1), .members = {}};
    table.parts = {4, true};
    for (std::uint16_t h = 0; h < 3; ++h) {
      table.members.push_back({coord::uid_of({h, 1}, 1), Slot(0)});
      table.hosts.push_back({{h, 1}, 1});
    }
    coord::write_table(board.table(Txn(0)), table);
    board.slot(Slot(0)).uid.store(table.members[0].uid.value());
    return BoardMemory::open(base_, bytes_, {0, 1});
  }
  coord::Board board() const { return {base_, kBoardPlan}; }
  bool has(std::span<const std::byte> bytes) const {
    return bytes.data() >= base_ && bytes.data() + bytes.size() <= base_ + bytes_;
  }

 private:
  comm::ExchangePlan plan_;
  std::uint64_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

// Both streams are up, unless one has ended; what is sent is looked at and gone.
class Streams final : public links::Links {
 public:
  void open(const links::Other&) override {}
  void abort(links::HostIndex host) override { up.erase(host); }
  bool is_up(links::HostIndex host) const override { return up.contains(host); }
  void send(links::HostIndex, std::string_view header, std::span<const std::byte> body) override {
    require(header.size() <= links::kMostHeaderBytes && body.size() <= links::kMostBodyBytes);
    for (std::size_t i = 0; i < body.size(); i += 64) sum_ += static_cast<unsigned>(body[i]);
    require(++sent_ < 1 << 16);
  }
  void send_copy(links::HostIndex host, std::string_view header, std::string body) override {
    send(host, header, std::as_bytes(std::span(body)));
  }
  std::size_t unsent(links::HostIndex) const override { return 0; }
  std::set<links::HostIndex> up;

 private:
  unsigned sum_ = 0;
  int sent_ = 0;
};

std::string_view take(std::string_view& bytes, std::size_t size) {
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(taken.size());
  return taken;
}

std::size_t take_number(std::string_view& bytes, std::size_t size) {
  std::size_t number = 0;
  for (const char byte : take(bytes, size)) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

class Link {
 public:
  explicit Link(BoardPages& pages)
      : pages_(pages),
        memory_(pages.renew()),
        carrier_(memory_->plan(), *memory_, {0, 1}, [](const Line&) {}) {
    auto streams = std::make_unique<Streams>();
    streams_ = streams.get();
    carrier_.use(std::move(streams));
    std::vector<links::Other> others(2);
    for (std::uint16_t h = 1; h < 3; ++h) others[h - 1u].party.stay = {h, 1};
    carrier_.obey({}, others);
  }

  void frame(std::string_view& bytes) {
    const std::size_t what = take_number(bytes, 1);
    const auto from = static_cast<links::HostIndex>(1 + (what & 1));
    if ((what & 2) != 0 && streams_->is_up(from)) down(from);
    if (!streams_->is_up(from)) up(from);
    const std::string_view header = take(bytes, std::min<std::size_t>(take_number(bytes, 1), 128));
    std::string body((what & 4) != 0 ? room_for(header) : 0, 'x');
    if ((what & 4) == 0) body = take(bytes, take_number(bytes, 2));
    land(from, header, body);
    if ((what & 8) == 0) return;
    carrier_.rung();
    carrier_.attend();
  }

  // What nobody sends is as it was.
  void check() const {
    const coord::Header& header = pages_.board().header();
    require(header.hosts.load() == 3 && header.dead_count.load() == 0);
    require(header.generation.load() == 0 && header.stop_recorded.load() == 0);
  }

 private:
  void up(links::HostIndex host) {
    streams_->up.insert(host);
    carrier_.events().up(host);
    if (greets_) land(host, link::encode(link::FrameHead{}), *link::encode(link::Have{}));
  }
  void down(links::HostIndex host) {
    streams_->up.erase(host);
    carrier_.events().down(host, {});
  }

  std::size_t room_for(std::string_view header) const {
    const auto head = link::decode_head(header);
    if (!head.ok() || head->what != link::FrameHead::What::kItem ||
        !link::is_of(memory_->plan(), head->item))
      return 0;
    const auto place = memory_->place(head->item);
    if (!place || (head->flags & link::kLeftOut) != 0) return 0;
    return std::min(links::kMostBodyBytes,
                    place->size() - std::min<std::size_t>(head->offset, place->size()));
  }

  void land(links::HostIndex from, std::string_view header, const std::string& body) {
    links::Events& events = carrier_.events();
    if (header.empty()) return;
    const auto place = events.landing(from, header, body.size());
    if (!place.ok()) return down(from);
    if (*place) {
      require((*place)->size() == body.size());
      if (!body.empty()) std::memcpy((*place)->data(), body.data(), body.size());
    }
    if (!events.landed(from, header).ok()) down(from);
  }

  BoardPages& pages_;
  const std::unique_ptr<BoardMemory> memory_;
  Carrier carrier_;
  Streams* streams_ = nullptr;
  const bool greets_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static BoardPages pages;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Link link(pages);
  while (!bytes.empty()) link.frame(bytes);
  link.check();
  return 0;
}
