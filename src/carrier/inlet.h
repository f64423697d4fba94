// What comes from one other host: where each frame's bytes go, and what is done when they are
// there. All inlets of a board share its link::Landings.
//
// A copy of the state (link::Kind::kImage) is much larger than all else: its slices come one at a
// time, with other items between them, and behind the last of them an empty one, when the sender
// has seen that its copy was still the same.
//
// Memory: one item's bytes, or a Have's or table's, at a time; and kMostAside items whose place
// another host's frame is landing in. Threads: one at a time. Errors: kBadData, of what no link
// of this run would send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "link/have.h"
#include "link/memory.h"
#include "link/messages.h"
#include "link/pair.h"

namespace lockstep::carrier {

class Inlet {
 public:
  struct Board {
    const link::Plan& plan;
    link::Memory& memory;
    link::Landings& landings;
  };
  static constexpr std::size_t kMostAside = 64;

  // See links::Events.
  Result<std::optional<std::span<std::byte>>> landing(const Board& board, link::HostIndex from,
                                                      std::string_view header, std::size_t bytes);
  // What it was, once it is whole.
  struct Come {
    std::optional<link::Have> have;
    std::optional<link::Item> item;  // a table, too
  };
  Result<Come> landed(const Board& board);
  // What waits aside: into its place, where that has become free. True: something did.
  bool settle(const Board& board, link::HostIndex from);
  // The stream is gone, and with it what was not whole.
  void close();

 private:
  using Place = std::optional<std::span<std::byte>>;
  struct Aside {
    link::Item item;
    std::uint8_t flags = 0;
    std::string bytes;
  };
  Status begin_item(const Board& board, link::HostIndex from);
  Result<Place> go_on(std::size_t bytes);
  Result<Place> image_slice(const Board& board, link::HostIndex from, std::size_t bytes);
  Result<Come> end_image(const Board& board);
  Result<Come> end_table(const Board& board);

  // A copy of the state so far.
  struct Image {
    link::Item item;
    bool lands = false;          // else into the bin
    std::span<std::byte> place;  // where it lands
    std::size_t come = 0;
  };

  std::optional<std::uint64_t> greeted_;  // where its board begins, by its last Have
  link::FrameHead head_;                  // of the frame in hand
  std::string text_;                      // of a Have or a table
  // The item in hand: its bytes so far, of `size_`, in one frame or in several.
  bool in_item_ = false;
  link::Landings::Fate fate_ = link::Landings::Fate::kBin;
  std::span<std::byte> place_;
  std::size_t size_ = 0, come_ = 0;
  Aside aside_;  // what it goes into where the place is taken
  std::vector<Aside> aside_items_;
  std::optional<Image> image_;
};

}  // namespace lockstep::carrier
