// The board: the run's shared memory that the agent and all workers map (one memfd per run;
// docs/design/protocol.md).
//
//   Header | Slot[kMaxSlots] | commit lines [slots][ring] | their long texts [slots][ring] |
//   share records [ring][V] | engine's data
//
// Rules. All zero is the initial state. Every word has one writer at a time, except a doorbell's
// ring count, the header's fault_fired, which any worker increments, its claims, of which any
// worker takes the next free one, and a slot's signal. A word that says "item X of
// transaction t is complete" holds t + 1 ("mark"), so that a stale one never matches; a mark is
// stored with release after what it vouches for, and loaded with acquire before that is read. A
// dead writer's unmarked items pass to the heir that coord::Ownership names, after the agent has
// confirmed the death. A restart of the group (rung 3) gets a fresh memfd, so marks never repeat.
//
// Threads: any process may map it. Ownership: a Board is a view; the mapping belongs to the agent's
// SharedBoard (launcher/linked/shared_board.h) or to the worker's session (worker/session.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/futex.h"
#include "base/ids.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::coord {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

inline constexpr std::uint64_t kBoardMagic = 0x4c4f434b53544550;  // "LOCKSTEP"
// The memfd is sparse and this long; untouched pages cost nothing. The thread sanitizer leaves a
// process some 1.5 TiB of address space, which has to hold several boards in tests.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kBoardBytes = std::uint64_t{1} << 36;
#else
inline constexpr std::uint64_t kBoardBytes = std::uint64_t{1} << 40;
#endif
// Deaths in the life of one board; then no more replacements.
inline constexpr std::uint32_t kMaxDead = 4096;
// What the exchange keeps of transaction t (buffers, rows, evaluations) is in t % kGenerations. A
// member may still be at t while those three ahead, at t + 3, go on: an epoch's end, two
// transactions, passes without those who have no part in it (at the run's end three, with an
// evaluation before it, but nothing comes behind them).
inline constexpr std::uint32_t kGenerations = 4;
// The table of t is in t % kTables: those ahead may have published that of t + 4, and who serves
// other hosts keeps no copy of t's.
inline constexpr std::uint32_t kTables = kGenerations + 1;
// What a transaction may say (CommitLines): kTextBytes, half of them for what shares add up by name
// (16 names of 31 bytes, each with mean, sum and count), and that much for each virtual worker,
// which may have lines of its own. Short texts lie in the lines themselves.
inline constexpr std::uint64_t kShortTextBytes = 2048;
inline constexpr std::uint64_t kTextBytes = 4608;
inline constexpr std::uint64_t kTextBytesPerShare = 256;
inline constexpr std::uint32_t kMaxFaults = 16;    // rules of one --inject
inline constexpr std::uint32_t kMaxClaims = 1024;  // of lines that one worker says for all

// What a worker is doing. In all but two it gets on by itself, and may stand still
// (coord/hang_watch.h); in the exchange it waits for others, and done it waits for the end.
enum class Phase : std::uint64_t {
  kIdle = 0,  // before its first transaction, or waiting for something
  kData = 1,
  kForward = 2,
  kBackward = 3,
  kExchange = 4,  // waiting for peers: never evicted for that
  kOptimizer = 5,
  kSnapshot = 6,
  kEvaluate = 7,
  kHeal = 8,  // copying state for, or as, a newcomer
  kDone = 9,
};
// In their order; what --inject and messages call them.
inline constexpr std::array<const char*, 10> kPhaseNames{
    "idle",      "data",     "forward",  "backward", "exchange",
    "optimizer", "snapshot", "evaluate", "heal",     "done"};

// A word that one process writes, and only ever adds to; others see it grow, with all that came
// before.
inline void grow(Word& word, std::uint64_t by) {
  word.store(word.load(std::memory_order_relaxed) + by, std::memory_order_release);
}

// coord::Parts in one word; 0: nobody has said.
constexpr std::uint64_t word_of(const Parts& parts) {
  return std::uint64_t{parts.items} * 2 + (parts.is_step ? 1 : 0);
}
constexpr Parts parts_of(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word / 2), word % 2 != 0};
}

// The table in shared memory: written by one process, then marked.
struct TableCell {
  Word mark;  // txn + 1
  Word generation;
  Word flags;
  Word stop_after_step;
  Word parts;  // word_of()
  Word count;
  Word uid[kMaxMembers];
  Word slot[kMaxMembers];
  Word host_count;
  Word host[kMaxMembers];  // its stay, and in the low half the workers that it was asked for
};

// The agent's wish for the next table; read once per transaction by whoever publishes it. Written
// under `sequence` (odd while being written, as a seqlock; Boehm, MSPC 2012).
struct ProposalCell {
  Word sequence;
  Word generation;
  Word flags;
  Word stop_after_step;  // 0: tables have it, not the proposal
  // Members wanted, joiners last; the publisher leaves out joiners that are not ready for this txn.
  Word count;
  Word uid[kMaxMembers];
  Word slot[kMaxMembers];
  Word host_count;
  Word host[kMaxMembers];  // its stay, and in the low half the workers that it was asked for
};

struct Header {
  Word magic, version;  // kProtocolVersion
  // Agent's words.
  Word generation;
  Word dead_count;  // dead_uid[0 .. dead_count) is final
  Word dead_uid[kMaxDead];
  ProposalCell proposal;
  Word recorded_txn;  // transactions below it are in the run directory's files (not yet synced)
  // t + 1 of the first transaction that is recorded from this board; 0: not known yet. On the board
  // of a host that comes the first worker that has come in stores it.
  Word recorded_from;
  Word started_ns;  // CLOCK_MONOTONIC when the launcher published its first table; 0: no launcher
  // The run's time: it had run for `ran_ns` at CLOCK_MONOTONIC `ran_from_ns`, its first table.
  Word ran_ns, ran_from_ns;
  Word stop_recorded;   // RUN_DIR/stop.json has this stop_after_step: it may take effect
  Word final_recorded;  // 1: final checkpoint and hash line are recorded, workers may exit 0
  Word heal_donor;      // uid of the member that copies its state for newcomers; 0: none wanted
  Word heal_request;    // number of the request; the donor copies once per number
  Word fault_fired[kMaxFaults];  // how often each injected fault fired; any worker increments
  // Members' words. What the transaction that this start begins with consists of, as word_of(): all
  // who begin with it store the same, before they are ready.
  Word first_parts;
  // The table of transaction t is in table[t % kTables] (Board::table).
  TableCell table[kTables];
  Word claims[kMaxClaims];  // any worker: keys of lines that are said, in the order they came
  // Members' too: where the plan of the run's exchange lies (comm/shm/shared_plan.h), from the
  // board's first byte; 0: not there yet.
  Word exchange_plan;
  // Of a run on several hosts. The agent's, before any worker is there: how many hosts there may
  // be; 0: one.
  Word hosts;
  // Rung where members ring each other, for the process that carries marks to other hosts.
  Doorbell link_bell;

  // Whether nobody has claimed this line before, which then is this worker's to say. More than
  // there is room for: everybody's.
  bool claim_line(std::uint64_t key);
};

// One worker's words; all written by it, except the doorbell.
struct alignas(4096) WorkerSlot {
  Doorbell bell;
  Word uid;
  Word phase;          // coord::Phase
  Word progress;       // any change is a sign of life
  Word current_txn;    // the transaction it works on,
  Word epoch;          // its epoch, from 0,
  Word epoch_step;     // its step in the epoch, from 0,
  Word item;           // and the virtual worker or evaluation batch that it computes,
  Word items;          // of so many: V in a step
  Word applied;        // transactions its state includes: t + 1 after applying t
  Word seen_dead;      // dead_count it acts on
  Word ready_txn;      // newcomer: state of the start of ready_txn - 1 is loaded (mark)
  Word heal_stall_ns;  // donor: time spent copying, sum
  Word join_stall_ns;  // members: time spent waiting for a newcomer, sum
  // CLOCK_MONOTONIC stamps of the newest incident this worker saw, for the incident report.
  Word abort_seen_ns;  // noticed that the dead list grew
  Word regrouped_ns;   // knows its new shares
  Word resumed_ns;     // began its first adopted share (0: adopted none)
  Word committed_ns;   // applied the interrupted transaction
  Word busy_ns;        // time inside data, forward, backward, evaluate and optimizer, sum
  Word busy_since_ns;  // start of the stretch not yet in busy_ns; 0: not computing
  // Fault injection: stamped just before the injected fault, so that a test can see that it fired.
  Word fault_fired_ns;
  Word fault_index;  // which rule it was, from 1
  // The first signal that came to it and asks for an end; 0: none. Its handler writes it, and the
  // agent clears it as it writes the first table: nothing before that counts.
  Word signal;

  // The words may be a dead worker's: all become zero, and then the slot is the new owner's. Rings
  // stay counted, since others may be ringing.
  void claim(WorkerUid owner);
};

// Sizes that follow from the run; the same in all processes (announced in the worker's Describe
// message).
struct BoardPlan {
  std::uint32_t virtual_workers = 1;  // V
  std::uint32_t ids_capacity = 0;     // most sample ids of one share
  std::uint32_t ring = 64;            // transactions kept for the agent to record; a power of two
  std::uint32_t epoch_ends = 1;       // transactions between two steps, at most
  std::uint32_t updates = 1;          // of a step: so many transactions it is
  friend bool operator==(const BoardPlan&, const BoardPlan&) = default;
};

// A ring size that keeps share records at or below 16 MiB: 64 to 1024.
std::uint32_t ring_for(std::uint32_t virtual_workers, std::uint32_t ids_capacity);

// What virtual worker v delivered in a step: entry [txn % ring][v].
struct ShareRecord {
  Word mark;  // txn + 1
  double loss_sum;
  double correct;            // right answers; NaN where none are counted
  std::uint64_t loss_count;  // samples; 0: it takes no part in the update
  // Which of the state's optimizers its worker was given for this update: a bit each; and in the
  // order given, as many as there are bits.
  std::uint64_t optimizers;
  std::uint8_t order[64];
  double rate;          // the learning rate its worker is about to update with: the first group's,
  std::uint64_t rates;  // and XXH3 of all groups'
  std::uint64_t state;  // XXH3 of its worker's state; 0 in steps that do not compare it
  std::uint64_t ends;   // 1: it asks to end the run after this step (Share::end_run)
  std::uint64_t epoch_began_ns;  // of the run's time (ran_ns()), as far as its worker knows
  std::uint64_t ids_count;
  // What was delivered, and what the order has there: another id where that sample cannot be
  // decoded.
  struct Sample {
    std::int64_t id, asked;
    bool replaced() const { return id != asked; }
  };
  static std::uint64_t bytes(std::uint32_t ids_capacity) {
    return sizeof(ShareRecord) + std::uint64_t{ids_capacity} * sizeof(Sample);
  }
  std::span<Sample> samples() { return {reinterpret_cast<Sample*>(this + 1), ids_count}; }
  std::span<const Sample> samples() const {
    return {reinterpret_cast<const Sample*>(this + 1), ids_count};
  }
  // Room for it is the caller's to know.
  void add(Sample sample) { reinterpret_cast<Sample*>(this + 1)[ids_count++] = sample; }
};

// What a worker says about a transaction it has committed: entry [slot][txn % ring]. All members
// write the same bytes; the agent takes them from any slot with applied > txn. Texts may be empty.
struct CommitLines {
  Word mark;                    // txn + 1
  std::uint32_t console_bytes;  // lines for standard output, each with its newline
  std::uint32_t metrics_bytes;  // lines for metrics.jsonl, each with its newline
  std::uint32_t is_step;  // 1: a step's last update, whose ids the ledger takes; 0: anything else
  std::uint32_t ends_epoch;  // 1: an epoch's end or its files
  std::uint64_t epoch;
  std::uint64_t step;          // steps of the run before this transaction
  char text[kShortTextBytes];  // console, then metrics; if longer, both are in Board::text()
};

// View of a mapped board. Cheap to copy.
class Board {
 public:
  Board() = default;
  Board(void* base, const BoardPlan& plan);

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  WorkerSlot& slot(Slot slot) const;
  TableCell& table(Txn txn) const { return header().table[txn.value() % kTables]; }
  CommitLines& lines(Slot slot, Txn txn) const;
  // Where those lines' text of so many bytes lies; text_capacity() at most.
  char* text(Slot slot, Txn txn, std::uint64_t bytes) const;
  std::uint64_t text_capacity() const {
    return kTextBytes + plan_.virtual_workers * kTextBytesPerShare;
  }
  ShareRecord& record(Txn txn, VirtualWorker v) const;
  // First byte of the engine's data, a multiple of 2 MiB.
  std::byte* data() const { return base_ + data_offset_; }
  std::uint64_t data_offset() const { return data_offset_; }
  const BoardPlan& plan() const { return plan_; }
  std::byte* base() const { return base_; }

  // dead_uid[0 .. dead_count), acquire.
  std::vector<WorkerUid> dead() const;
  // Whether a member may begin it: nothing that is still to be recorded is written over.
  bool has_room(Txn txn) const;
  // From here on there is room for what follows `next` alone: the first that is to be recorded.
  void record_from(Txn next) const;
  // The first transaction that has none while only those below `recorded` are in the files. Other
  // hosts' members have room on their own boards, and what they record comes here: up to
  // kGenerations - 1 transactions behind the one at whose start this host's wait.
  Txn no_room_from(Txn recorded) const { return Txn(recorded.value() + plan_.ring - kGenerations); }

 private:
  std::byte* base_ = nullptr;
  BoardPlan plan_;
  std::uint64_t lines_offset_ = 0, texts_offset_ = 0, records_offset_ = 0, record_bytes_ = 0,
                data_offset_ = 0;
};

// By whoever makes the board: says what it is.
void label_board(Header& header);
// kUsage unless the memory behind this descriptor is a board of our version.
Status check_board(int memory);

// Bytes from the start of the board that exist before any plan is known (Header and slots).
std::uint64_t fixed_bytes();

// Nanoseconds that the run has run, all its starts together; 0: it has no table yet.
std::uint64_t ran_ns(const Header& header, std::uint64_t now_ns);

void write_table(TableCell& cell, const Table& table);          // mark last
bool read_table(const TableCell& cell, Txn txn, Table& table);  // false: not the table of txn
void write_proposal(ProposalCell& cell, const Table& wish);  // the agent only; wish.txn is ignored
// The newest whole proposal. Retries while the agent writes; an agent that died while writing takes
// us with it.
Table read_proposal(const ProposalCell& cell);
// visit(member) of whom it lists, without a wait: a torn read names somebody else at worst, and no
// slot that a board has not.
void each_proposed(const ProposalCell& cell, auto visit) {
  const auto count =
      std::min<std::uint64_t>(cell.count.load(std::memory_order_relaxed), kMaxMembers);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Member member{
        WorkerUid(cell.uid[i].load(std::memory_order_relaxed)),
        Slot(static_cast<std::uint32_t>(cell.slot[i].load(std::memory_order_relaxed)))};
    if (member.slot.value() < kMaxSlots) visit(member);
  }
}

}  // namespace lockstep::coord
