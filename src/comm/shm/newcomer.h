// What the board says of somebody who is to come in (Exchange::newcomer). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/exchange.h"
#include "comm/shm/layout.h"
#include "coord/board.h"

namespace lockstep::comm::shm {

// `data`: the engine's; `hosts`: the plan's; `today`: the newest table. On the asker's own host the
// newcomer's words say it, of others what the link has written down. For a host that is in no table
// any other one's copy is on its way.
Exchange::Newcomer newcomer_of(const coord::Member& member, coord::Stay here,
                               const coord::Table& today, const coord::Board& board,
                               const Layout& layout, std::byte* data, std::uint32_t hosts);

}  // namespace lockstep::comm::shm
