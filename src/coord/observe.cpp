#include <algorithm>

#include "coord/events.h"

namespace lockstep::coord {

event::Progress observe(const Board& board, const std::vector<Member>& workers) {
  event::Progress report;
  const auto get = [](const Word& word) { return word.load(std::memory_order_acquire); };
  for (const Member& worker : workers) {
    const WorkerSlot& slot = board.slot(worker.slot);
    WorkerProgress& seen = report.workers.emplace_back();
    seen.uid = worker.uid;
    if (get(slot.uid) != worker.uid.value()) continue;
    seen.phase = static_cast<Phase>(get(slot.phase));
    seen.progress = get(slot.progress);
    seen.current_txn = Txn(get(slot.current_txn));
    seen.epoch = get(slot.epoch);
    seen.epoch_step = get(slot.epoch_step);
    seen.item = get(slot.item);
    seen.items = static_cast<std::uint32_t>(get(slot.items));
    seen.applied = get(slot.applied);
    seen.ready_txn = get(slot.ready_txn);
    seen.abort_seen_ns = get(slot.abort_seen_ns);
    seen.regrouped_ns = get(slot.regrouped_ns);
    seen.resumed_ns = get(slot.resumed_ns);
    seen.committed_ns = get(slot.committed_ns);
    seen.fault_fired_ns = get(slot.fault_fired_ns);
    seen.signal = static_cast<int>(get(slot.signal));
  }
  for (const TableCell& cell : board.header().table) {
    const std::uint64_t mark = get(cell.mark);
    Table table;
    if (mark != 0 && read_table(cell, Txn(mark - 1), table)) report.tables.push_back(table);
  }
  std::sort(report.tables.begin(), report.tables.end(),
            [](const Table& a, const Table& b) { return a.txn < b.txn; });
  return report;
}

}  // namespace lockstep::coord
