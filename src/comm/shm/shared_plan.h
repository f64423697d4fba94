// The plan of an exchange as numbers on the board, so that a process which has no parameters finds
// every bucket, chunk, record and row. Each worker computes the plan by itself; the first to come
// writes it down, and the others compare: one whose plan is another would read and write elsewhere.
//
// Every number is agreed on by itself and stays as it is: a worker that dies while it writes leaves
// the rest to the next. Threads and processes: any.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/exchange.h"
#include "coord/board.h"
#include "lockstep/status.h"

namespace lockstep::comm::shm {

struct SharedPlan {
  coord::BoardPlan board;
  ExchangePlan exchange;
  friend bool operator==(const SharedPlan&, const SharedPlan&) = default;
};

// Where in the exchange's memory it lies, whatever the plan; and how long it is.
std::uint64_t shared_plan_offset();
std::uint64_t shared_plan_bytes(const ExchangePlan& plan);

// kUsage: another worker has another plan; the first number that differs, and both values.
// Header::exchange_plan then has the place of the first exchange on this board, and the link is
// rung, which waits for it.
Status share_plan(const coord::Board& board, const ExchangePlan& plan);

// That of the first exchange on the board whose first byte this is, with so many bytes mapped;
// nullopt: no worker has written all of it yet.
std::optional<SharedPlan> shared_plan(std::byte* base, std::uint64_t bytes);

}  // namespace lockstep::comm::shm
