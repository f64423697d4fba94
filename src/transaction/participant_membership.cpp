// Who takes part next, and how a newcomer gets the state from a live peer (docs/design/protocol.md,
// "A newcomer").
#include <algorithm>

#include "transaction/participant.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {
namespace {

// How long members wait for a newcomer that the copy is there for (design: survivors stall at most
// 20 ms). Doubled each time that it was too short, up to 1.9 s; and then from the start again, as
// one that never loads shall not hold the others up for good.
constexpr std::uint64_t kJoinPatience_ns = 15'000'000;
constexpr std::uint32_t kDoublings = 7;

}  // namespace

std::vector<coord::Member> Participant::wanted_joiners(const coord::Table& wish) const {
  const std::vector<WorkerUid> dead = board_.dead();
  std::vector<coord::Member> joiners;
  if (!program_.is_border(Txn(next_.value() + 1))) return joiners;
  for (const coord::Member& m : wish.members)
    if (!table_.has(m.uid) && !coord::is_dead(dead, m.uid)) joiners.push_back(m);
  return joiners;
}

// The next table: the proposal's members that live, and of the joiners those given. Within a step
// it is today's, less the dead.
void Participant::publish_table(std::vector<coord::Member> joiners) {
  session_.look_at_time();
  coord::Table table = program_.is_border(Txn(next_.value() + 1))
                           ? coord::read_proposal(board_.header().proposal)
                           : table_;
  const std::vector<WorkerUid> dead = board_.dead();
  std::erase_if(table.members, [&](const coord::Member& m) {
    if (coord::is_dead(dead, m.uid)) return true;
    return !table_.has(m.uid) && std::find(joiners.begin(), joiners.end(), m) == joiners.end();
  });
  // Nobody of today's in tomorrow's table (all were asked to leave at once): go on as we are.
  if (table.members.empty()) table.members = table_.members;
  table.txn = Txn(next_.value() + 1);
  const bool time_is_up = (table.flags & coord::kTimeIsUp) != 0;
  table.flags &= ~coord::kTimeIsUp;
  table.stop_after_step = table_.stop_after_step;
  if (time_is_up && table.stop_after_step == 0)
    table.stop_after_step = program_.steps_if_last(table.txn);
  coord::write_table(board_.table(table.txn), table);
  exchange_->ring_members();
  for (const coord::Member& m : joiners) ring(board_.slot(m.slot).bell);
}

// The first live member's last part of a transaction: the next table, with the joiners that are
// ready. False: one has a copy to load, and there is patience left. Whether it has begun to load
// says nothing: it may wait for a CPU longer than a short update takes.
bool Participant::settle_joiners() {
  const std::uint64_t mark = next_.value() + 1;
  const bool copied = exchange_->heal_mark().load(std::memory_order_acquire) == mark;
  std::vector<coord::Member> ready;
  bool loading = false;
  for (const coord::Member& m : wanted_joiners(coord::read_proposal(board_.header().proposal))) {
    if (board_.slot(m.slot).ready_txn.load(std::memory_order_acquire) == mark)
      ready.push_back(m);
    else
      loading = copied;
  }
  const std::uint64_t now = monotonic_ns();
  if (whole_since_ns_ == 0) whole_since_ns_ = now;
  if (loading && now - whole_since_ns_ < kJoinPatience_ns << doublings_) return false;
  if (copied) doublings_ = loading ? (doublings_ + 1) % (kDoublings + 1) : 0;
  coord::grow(self_slot().join_stall_ns, now - whole_since_ns_);
  publish_table(std::move(ready));
  return true;
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
  enter(coord::Phase::kHeal);
  const std::uint64_t begin = monotonic_ns();
  exchange_->heal_mark().store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  LOCKSTEP_TRY(store_image(state_, exchange_->heal_region()));
  exchange_->heal_mark().store(next_.value() + 1, std::memory_order_release);
  coord::grow(self_slot().heal_stall_ns, monotonic_ns() - begin);
  for (const coord::Member& m : joiners) ring(board_.slot(m.slot).bell);
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
  // From here on the others wait for our first share, so this transaction's sums stay.
  done_ = 0;
  marked_ = 0;
  whole_since_ns_ = 0;
  if (!start_buffers_.empty()) store_buffers(state_, start_buffers_);
  LOCKSTEP_TRY(wait_whole());
  LOCKSTEP_TRY(commit());
  return true;
}

}  // namespace lockstep::transaction
