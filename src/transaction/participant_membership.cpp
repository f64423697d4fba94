// Who takes part next, and how a newcomer gets the state from a live peer (docs/design/protocol.md,
// "A newcomer").
#include <algorithm>

#include "base/log.h"
#include "base/seconds.h"
#include "coord/next_table.h"
#include "transaction/participant.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {

std::vector<coord::Member> Participant::wanted_joiners(const coord::Table& wish) const {
  if (!program_.is_border(Txn(next_.value() + 1))) return {};
  return coord::joiners(table_, wish, board_.dead());
}

void Participant::publish_table(const std::vector<coord::Member>& ready) {
  session_.look_at_time();
  const Txn txn(next_.value() + 1);
  const coord::Table wish = coord::read_proposal(board_.header().proposal);
  const std::vector<WorkerUid> dead = board_.dead();
  coord::Table table = coord::next_table({.today = table_,
                                          .wish = wish,
                                          .dead = dead,
                                          .ready = ready,
                                          .begins_step = program_.is_border(txn),
                                          .last_step = program_.steps_if_last(txn)});
  table.parts = parts(txn);
  coord::write_table(board_.table(txn), table);
  exchange_->ring_members();
  ring_newcomers(ready);
}

// Those of this host; others are rung by their link.
void Participant::ring_newcomers(const std::vector<coord::Member>& joiners) const {
  for (const coord::Member& m : joiners)
    if (coord::stay_of(m.uid) == coord::stay_of(session_.identity().uid))
      ring(board_.slot(m.slot).bell);
}

// From a host that no table has: its copy crosses a network.
bool Participant::comes_from_elsewhere(const coord::Member& newcomer) const {
  return !table_.hosts.empty() && std::ranges::find(table_.hosts, coord::stay_of(newcomer.uid),
                                                    &coord::Host::stay) == table_.hosts.end();
}

// The first live member's last part of a transaction: the next table, with the joiners that are
// ready. False: one has a copy to load, and there is patience left. Whether it has begun to load
// says nothing: it may wait for a CPU longer than a short update takes.
bool Participant::settle_joiners() {
  const std::uint64_t mark = next_.value() + 1;
  bool copied = exchange_->heal_mark().load(std::memory_order_acquire) == mark, loading = false;
  std::uint64_t crossing = 0;  // bytes
  std::vector<coord::Member> ready;
  for (const coord::Member& m : wanted_joiners(coord::read_proposal(board_.header().proposal))) {
    const comm::Exchange::Newcomer newcomer = exchange_->newcomer(m);
    copied = copied || newcomer.copied == mark;
    if (newcomer.ready == mark) {
      ready.push_back(m);
    } else if (newcomer.copied == mark) {
      loading = true;
      if (comes_from_elsewhere(m)) crossing = exchange_->heal_region().size();
    }
  }
  const std::uint64_t now = monotonic_ns();
  if (whole_since_ns_ == 0) whole_since_ns_ = now;
  if (loading && now - whole_since_ns_ < patience_.now(crossing)) return false;
  if (copied && !loading) patience_.was_enough();
  if (loading && patience_.was_too_short(crossing) && crossing != 0)
    tell_late(crossing, now - whole_since_ns_);
  coord::grow(self_slot().join_stall_ns, now - whole_since_ns_);
  publish_table(ready);
  return true;
}

void Participant::tell_crossing() const {
  const std::uint64_t bytes = exchange_->heal_region().size();
  const std::uint64_t time = bytes * JoinPatience::kPerByte;
  if (time < 1'000'000'000) return;
  log_once("a node comes in: its copy of the state, " + std::to_string(bytes / 1'000'000) +
               " MB, has to cross the network, and the others wait for it (" + seconds(time) +
               " at 100 MB/s)",
           LogLevel::kInfo, "crossing");
}

void Participant::tell_late(std::uint64_t crossing, std::uint64_t waited_ns) const {
  const std::uint64_t megabytes = crossing / 1'000'000;
  log_warning("a node that comes in has not loaded its copy of the state" +
              (megabytes > 0 ? ", " + std::to_string(megabytes) + " MB," : std::string()) +
              " within " + seconds(waited_ns) +
              ": the others go on without it, and it tries again. Its network is slow, or its "
              "worker stands still");
}

Status Participant::donate_if_asked() {
  if (!program_.is_border(Txn(next_.value() + 1))) return {};  // nobody could come in with it
  const coord::Header& header = board_.header();
  const std::uint64_t request = header.heal_request.load(std::memory_order_acquire);
  if (request == handled_request_ ||
      header.heal_donor.load(std::memory_order_acquire) != session_.identity().uid.value())
    return {};
  handled_request_ = request;
  const std::vector<coord::Member> joiners = wanted_joiners(coord::read_proposal(header.proposal));
  if (joiners.empty()) return {};
  if (std::ranges::any_of(joiners, [&](const auto& m) { return comes_from_elsewhere(m); }))
    tell_crossing();
  enter(coord::Phase::kHeal);
  const std::uint64_t begin = monotonic_ns();
  exchange_->heal_mark().store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  LOCKSTEP_TRY(store_image(state_, exchange_->heal_region()));
  exchange_->heal_mark().store(next_.value() + 1, std::memory_order_release);
  coord::grow(self_slot().heal_stall_ns, monotonic_ns() - begin);
  ring_newcomers(joiners);
  exchange_->ring_link();
  return {};
}

Status Participant::heal() {
  exchange_->prefault(true);
  LOCKSTEP_TRY(session_.ready(Txn(0), 0));
  std::uint64_t tried = 0;
  for (;;) {
    const auto fresh = [&] {
      const std::uint64_t mark = exchange_->heal_mark().load(std::memory_order_acquire);
      return mark != 0 && mark != tried;
    };
    await(self_slot().bell, fresh);
    tried = exchange_->heal_mark().load(std::memory_order_acquire);
    if (tried == 0) continue;
    LOCKSTEP_ASSIGN(const bool joined, try_heal(tried));
    if (joined) return {};
  }
}

// One attempt with the copy of the start of transaction mark - 1. False: too late, wait for a newer
// copy.
Result<bool> Participant::try_heal(std::uint64_t mark) {
  const worker::Identity& me = session_.identity();
  coord::WorkerSlot& slot = self_slot();
  next_ = Txn(mark - 1);
  if (!coord::read_table(board_.table(next_), next_, table_)) return false;
  if (table_.stop_after_step != 0) program_.stop_after(table_.stop_after_step);
  enter(coord::Phase::kHeal);
  const auto texts = load_tensors(state_, exchange_->heal_region());
  std::atomic_thread_fence(std::memory_order_acquire);
  // A copy that was written anew meanwhile may be torn: the next one is on its way.
  if (exchange_->heal_mark().load(std::memory_order_acquire) != mark) return false;
  if (!texts.ok()) return texts.error();
  LOCKSTEP_TRY(load_texts(state_, *texts));
  slot.ready_txn.store(mark, std::memory_order_release);
  LOCKSTEP_TRY(begin_exchange());
  exchange_->ring_members();
  coord::Table after;
  const coord::TableCell& cell = board_.table(Txn(next_.value() + 1));
  // Decided, or so far ahead that the decision is overwritten. Not before: others may already count
  // on ready_txn.
  const auto told = [&] { return cell.mark.load(std::memory_order_acquire) >= mark + 1; };
  await(self_slot().bell, told);
  if (!coord::read_table(cell, Txn(mark), after) || !after.has(me.uid)) return false;
  came_in_ = Txn(mark);
  std::uint64_t nobody = 0;
  board_.header().recorded_from.compare_exchange_strong(nobody, mark);
  // From here on the others wait for our first share, so this transaction's sums stay.
  done_ = 0;
  marked_ = 0;
  whole_since_ns_ = 0;
  if (!start_buffers_.empty()) store_buffers(state_, start_buffers_);
  LOCKSTEP_TRY(wait_whole());
  LOCKSTEP_TRY(commit());
  evaluations_ = 0;
  return true;
}

}  // namespace lockstep::transaction
