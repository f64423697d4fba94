// The toy worker's part in the run: keeps the protocol (docs/design/protocol.md) with a trivial
// model, without libtorch.
//
// The state is one word. Share v of step t is mix(state, t, v); the sum of all shares, in any
// order, gives the next state. Shares travel in the share records, copies for newcomers in the
// board's data. The last line printed is "state <hex>".
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "coord/board.h"
#include "coord/ownership.h"
#include "coord/recorder.h"
#include "support/toy_options.h"
#include "worker/inject.h"
#include "worker/session.h"

namespace lockstep::toy {

using coord::Phase;

// What lies at the board's data.
struct Shared {
  coord::Word heal_mark;
  coord::Word heal_state;
};

class Toy {
 public:
  Toy(worker::Session& session, const Options& options)
      : session_(session),
        options_(options),
        txns_(options.number("txns", 20)),
        shares_(static_cast<std::uint32_t>(options.number("shares", 4))),
        dir_(options.text("run-dir")) {}

  Status run();

 private:
  Status train(std::uint64_t txn);
  Status heal();
  Status finish();
  void step(const coord::Table& table, std::uint64_t txn);
  void compute_shares(const coord::Ownership& own, std::uint32_t self, std::uint64_t txn);
  void compute(std::uint64_t txn, std::uint32_t v);
  void stand_still(std::uint64_t txn);
  void publish_table(std::uint64_t txn, const coord::Table& table);
  void donate(std::uint64_t txn);
  void apply(std::uint64_t txn);
  void commit_lines(std::uint64_t txn);
  bool whole(std::uint64_t txn) const;
  void save(std::uint64_t txn, bool at_the_end = false);
  std::uint64_t load();
  void wait_for_ring(std::uint64_t txn);

  coord::WorkerSlot& mine() const { return board_.slot(session_.identity().slot); }
  Shared& shared() const { return *reinterpret_cast<Shared*>(board_.data()); }
  void phase(Phase phase, std::uint64_t txn, std::optional<std::uint32_t> share = {}) {
    mine().phase.store(static_cast<std::uint64_t>(phase));
    mine().item.store(share.value_or(0));
    mine().progress.fetch_add(1);
    injector_.at(phase, Txn(txn), rank_, share);
  }
  void ring_all(const coord::Table& table) {
    for (const coord::Member& member : table.members) ring(board_.slot(member.slot).bell);
  }
  template <class Condition>
  void wait_until(Condition condition) {
    while (!lockstep::wait_until(mine().bell, condition,
                                 Deadline::in(std::chrono::milliseconds(50)))) {
    }
  }

  worker::Session& session_;
  const Options& options_;
  std::uint64_t txns_;
  std::uint32_t shares_;
  std::string dir_;
  coord::Board board_;
  worker::Injector injector_;
  Rank rank_ = coord::kNewcomer;
  std::uint64_t state_ = 42, healed_request_ = 0;
  bool was_slow_ = false;
  bool interrupted_ = false;  // a death was noticed in this transaction
  UniqueFd lock_;
  std::unique_ptr<coord::Recorder> recorder_;  // alone only
};

}  // namespace lockstep::toy
