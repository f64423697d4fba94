#include "coord/keeper_wire.h"

#include "base/errors.h"
#include "base/wire.h"
#include "coord/keeper_fields.h"
#include "coord/messages.h"

namespace lockstep::coord {
namespace {

template <Is<WorkerProgress> M>
void fields(auto& io, M& m) {
  io(m.uid), io.one_of(m.phase, Phase::kDone), io(m.progress), upto(io, m.current_txn, kMaxTxn);
  io(m.epoch), io(m.epoch_step), io(m.item), io(m.items);
  upto(io, m.applied, kMaxTxn), upto(io, m.ready_txn, kMaxTxn);
  upto(io, m.abort_seen_ns, kMost), upto(io, m.regrouped_ns, kMost), upto(io, m.resumed_ns, kMost);
  upto(io, m.committed_ns, kMost), upto(io, m.fault_fired_ns, kMost);
  upto(io, m.signal, kMostSignal);
}
template <Is<WorkerView> M>
void fields(auto& io, M& m) {
  io(m.uid), upto(io, m.slot, kMaxSlots - 1), upto(io, m.seat, kMaxSlots);
  io.one_of(m.stage, Stage::kLeaving);
  io(m.newcomer), io(m.proposed), io(m.dismissed), io(m.refused), io(m.left);
  io.maybe(m.failure, [](auto& of, auto& one) { error(of, one, kMostFailure); });
  upto(io, m.next, kMaxTxn), io(m.state_hash);
  upto(io, m.time.ran, kMost), upto(io, m.time.limit, kMost),
      upto(io, m.time.stop_after_step, kMost);
  io(m.complete);
  io.maybe(m.first_txn, [](auto& of, auto& txn) { upto(of, txn, kMaxTxn); });
  fields(io, m.seen);
}
template <Is<HostView> M>
void fields(auto& io, M& m) {
  fields(io, m.stay);
  upto(io, m.now, kMost), upto(io, m.reported, kMost), upto(io, m.obeyed, kMost);
  upto(io, m.last_step, kMost), upto(io, m.signal, kMostSignal), io(m.goes_on), io(m.stopped);
  fields(io, m.waits);
  io.list(m.workers, [](auto& of, auto& one) { fields(of, one); });
}

template <Is<Death> M>
void fields(auto& io, M& m) {
  io.one_of(m.cause, Cause::kFailedSpawn), text(io, m.text, kMostWords);
  io(m.ended_well), io(m.by_stop_signal);
}
template <Is<report::Outlook> M>
void fields(auto& io, M& m) {
  io(m.has_room), io(m.in_vain), upto(io, m.failed, kMaxDead), io(m.again), io(m.free);
}
void rank(auto& io, auto& m) { upto(io, m.rank, kMaxMembers); }

template <Is<report::Described> M>
void fields(auto& io, M& m) {
  io(m.what.uid), within(io, m.what.virtual_workers, 1, kMaxVirtualWorkers), io(m.what.elastic);
  io(m.what.program);
  io.maybe(m.what.refusal, [](auto& of, auto& one) { error(of, one, kMostFailure); });
  text(io, m.what.what, kMostDescription);
  rank(io, m);
}
template <class M>
requires Is<M, report::Ready> || Is<M, report::Finished>
void fields(auto& io, M& m) { io(m.uid); }
template <Is<report::Lost> M>
void fields(auto& io, M& m) {
  fields(io, m.worker), rank(io, m), fields(io, m.death);
  io.maybe(m.shares, [](auto& of, auto& shares) {
    of.list(shares,
            [](auto& in_or_out, auto& one) { upto(in_or_out, one, kMaxVirtualWorkers - 1); });
  });
  fields(io, m.outlook);
}
template <Is<report::LetGo> M>
void fields(auto& io, M& m) {
  fields(io, m.worker), rank(io, m), fields(io, m.outlook);
}
template <Is<report::LostAtStart> M>
void fields(auto& io, M& m) {
  text(io, m.fact, kMostWords), io(m.told);
}
template <Is<report::LoopEnded> M>
void fields(auto& io, M& m) {
  text(io, m.name, kMostWords);
}
template <Is<report::Failed> M>
void fields(auto& io, M& m) {
  io(m.uid), rank(io, m), error(io, m.error, kMostWords), io(m.final), io(m.refused);
}
template <Is<report::MustEnd> M>
void fields(auto& io, M& m) {
  upto(io, m.code, kMostCode), text(io, m.text, kMostWords), io(m.told);
}
template <Is<report::NoMoreWorkers> M>
void fields(auto& io, M& m) {
  text(io, m.text, kMostWords), io(m.from_outside);
}
template <Is<report::EndedLate> M>
void fields(auto& io, M& m) {
  upto(io, m.code, kMostCode);
}

template <Is<event::Signal> M>
void fields(auto& io, M& m) {
  upto(io, m.number, kMostSignal), text(io, m.by, kMostWords);
}
template <Is<event::RecordsFailed> M>
void fields(auto& io, M& m) {
  error(io, m.error, kMostWords);
}

template <Is<report::Told> M>
void fields(auto& io, M& m) {
  alternative(io, m.what, [](auto& of, auto& what) { fields(of, what); });
}
template <Is<HostWord> M>
void fields(auto& io, M& m) {
  alternative(io, m.report, [](auto& of, auto& what) { fields(of, what); });
  fields(io, m.view);
  io.list(m.unreached, [](auto& of, auto& one) { upto(of, one, kMaxHosts - 1); });
}
template <Is<RunWord> M>
void fields(auto& io, M& m) {
  io.list(m.pulses, [](auto& of, auto& one) {
    upto(of, one.host, kMaxHosts - 1), of(one.goes_on), fields(of, one.waits);
  });
}

// In order, each of this stay, each once.
bool are_of(const HostView& view) {
  WorkerUid last;
  for (const WorkerView& worker : view.workers) {
    const bool is_own = stay_of(worker.uid) == view.stay && worker.uid != death_of(view.stay);
    if (!is_own || worker.uid <= last) return false;
    last = worker.uid;
  }
  return view.workers.size() <= kMaxSlots;
}

// A worker has so many shares at most.
bool can_be(const Report& report) {
  const auto* lost = std::get_if<report::Lost>(&report);
  return lost == nullptr || !lost->shares || lost->shares->size() <= kMaxVirtualWorkers;
}

}  // namespace

std::string encode(const HostWord& word) {
  WireWriter io;
  fields(io, word);
  return io.take();
}

Result<HostWord> decode_host_word(std::string_view bytes) {
  LOCKSTEP_ASSIGN(
      HostWord word,
      read_whole<HostWord>(bytes, "a host's word", [](auto& io, auto& word) { fields(io, word); }));
  if (!are_of(word.view)) return bad_data("a host's word names workers that it cannot have");
  if (!can_be(word.report)) return bad_data("a host's word names more shares than there can be");
  if (word.unreached.size() > kMaxHosts) return bad_data("a host's word names too many hosts");
  return word;
}

std::string encode(const RunWord& word) {
  WireWriter io;
  fields(io, word);
  return io.take();
}

Result<RunWord> decode_run_word(std::string_view bytes) {
  return read_whole<RunWord>(bytes, "the run's word",
                             [](auto& io, auto& word) { fields(io, word); });
}

}  // namespace lockstep::coord
