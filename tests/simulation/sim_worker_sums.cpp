// What a worker delivers, what it sums, and what it makes of the sums.
#include <algorithm>
#include <utility>

#include "simulation/sim_worker.h"

namespace lockstep::simulation {

void SimWorker::deliver_share(std::uint32_t v) {
  const std::uint64_t row = row_of(v);
  const std::uint64_t share = host_.plan.share(value_, row, txn_, v);
  self().pieces[v] = {txn_ + 1, share};
  generator_ = mix(share, v);
  const auto write = [txn = txn_, value = Plan::buffers(share), next = Plan::carry(row, share),
                      board = board_, v](bool buffers) {
    Cell& cell = buffers ? board->buffer(txn) : board->row(txn)[v];
    if (cell.mark <= txn) cell = {txn + 1, buffers ? value : next};
  };
  for (const bool buffers : {true, false}) {
    if (buffers && v != 0) continue;
    if (buffers ? host_.planted.buffers_late : host_.planted.rows_late)
      late_.emplace_back([write, buffers] { write(buffers); });
    else
      write(buffers);
  }
  if (!late_.empty()) later(host_.random.between(0, kMillisecond), &SimWorker::deliver_late);
  // A record that the dead had marked stays.
  Cell& record = board_->recorded(txn_)[v];
  if (record.mark <= txn_) record = {txn_ + 1, Plan::loss(share)};
}

void SimWorker::deliver_late() {
  for (const auto& write : std::exchange(late_, {})) write();
}

std::uint64_t SimWorker::row_of(std::uint32_t v) const {
  const Cell& cell = board_->row(txn_)[v];
  return host_.planted.row_before_commit && cell.mark == txn_ + 1 ? cell.value : rows_[v];
}

// Once its own shares' records are there.
void SimWorker::leave_out_chunks() {
  const std::uint32_t me = index_in(table_);
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    Cell& chunk = board_->chunks[c];
    if (host_.plan.has_sum(txn_, c) || ownership_->chunk_owner(c, kChunks, 0) != me) continue;
    if (chunk.mark > txn_) continue;
    write_check("that a chunk is left out");
    board_->left_out(txn_)[c] = txn_ + 1;
    chunk.mark = txn_ + 1;
    host_.ring_all();
  }
}

void SimWorker::deliver_batch(std::uint32_t item) {
  Cell& cell = board_->batches(txn_)[item];
  require(cell.mark <= txn_, "batch " + std::to_string(item) + " of transaction " +
                                 std::to_string(txn_) + " is written over one of " +
                                 std::to_string(cell.mark - 1));
  cell = {txn_ + 1, host_.plan.batch(value_, txn_, item)};
}

// Sums those chunks that are this member's, once every live owner's piece is there.
void SimWorker::sum_chunks() {
  std::uint64_t sum = 0;
  for (std::uint32_t v = 0; v < host_.plan.virtual_workers; ++v) {
    const coord::Member& owner = table_.members[ownership_->owner(v)];
    const Cell& piece = board_->slots[owner.slot.value()].pieces[v];
    if (piece.mark != txn_ + 1) return;
    sum = mix(sum, piece.value);
  }
  const std::uint32_t me = index_in(table_);
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    Cell& chunk = board_->chunks[c];
    if (ownership_->chunk_owner(c, kChunks, 0) != me || chunk.mark > txn_) continue;
    if (!host_.plan.has_sum(txn_, c)) continue;
    write_check("a sum");
    require(chunk.mark <= txn_, "a sum of transaction " + std::to_string(txn_) +
                                    " is written over one of " + std::to_string(chunk.mark - 1));
    chunk = {txn_ + 1, Plan::chunk(sum, c), txn_ + 1};
    host_.ring_all();
  }
}

// All but the next table is there. A later mark: the others have gone on without this worker.
bool SimWorker::whole() const {
  const auto marked = [&](const Cell& cell) { return cell.mark > txn_; };
  if (!is_step(txn_)) return std::ranges::all_of(board_->batches(txn_), marked);
  return std::all_of(board_->chunks.begin(), board_->chunks.end(), marked) &&
         (host_.planted.buffers_late || marked(board_->buffer(txn_))) &&
         (host_.planted.rows_late || std::ranges::all_of(board_->row(txn_), marked)) &&
         std::ranges::all_of(board_->recorded(txn_), marked);
}

// False: the others have written over what it read, as nobody waits for this worker any more.
bool SimWorker::apply() {
  const auto mine = [&](const Cell& cell) { return cell.mark == txn_ + 1; };
  bool intact = true;
  if (is_step(txn_)) {
    intact = mine(board_->buffer(txn_)) && std::ranges::all_of(board_->row(txn_), mine);
    for (std::uint32_t c = 0; c < kChunks; ++c) {
      const bool has_sum = host_.plan.has_sum(txn_, c);
      intact = intact && (!has_sum || board_->chunks[c].sum_of == txn_ + 1);
      require(host_.planted.empty_is_a_sum || passed_over() || left_out(c) != has_sum,
              "a chunk has a sum, or has none, against its update");
    }
    if (!host_.planted.generator_stays) generator_ = Plan::seed(txn_);
    memory_ = host_.plan.remember(memory_, txn_, losses());
    ends_ = (ends_ && !is_border(txn_)) || asks_to_end();
    value_ = apply_sums();
    if (host_.planted.hook_before_rows) run_hook();
    for (std::uint32_t v = 0; v < rows_.size(); ++v) rows_[v] = board_->row(txn_)[v].value;
    if (!host_.planted.hook_before_rows) run_hook();
  } else {
    for (std::uint32_t item = 0; item < host_.plan.batches; ++item) {
      const Cell& cell = board_->batches(txn_)[item];
      intact = intact && mine(cell);
      require(!mine(cell) || cell.value == host_.plan.batch(reference(txn_), txn_, item),
              "a batch of transaction " + std::to_string(txn_) + " differs");
    }
  }
  require(intact || passed_over(),
          "what transaction " + std::to_string(txn_) + " gave is gone before all have applied it");
  host_.overtaken += intact ? 0 : 1;
  return intact;
}

std::uint64_t SimWorker::apply_sums() const {
  const Cell& buffers = board_->buffer(txn_);
  std::uint64_t value = host_.plan.apply(value_, txn_, board_->chunks, buffers, generator_);
  for (std::uint32_t c = 0; c < kChunks; ++c)
    if (host_.planted.empty_is_a_sum && left_out(c)) value = mix(value, board_->chunks[c].value);
  return value;
}

void SimWorker::run_hook() {
  const bool late = std::exchange(came_in_, false) && host_.planted.no_hook_if_late;
  if (!late) value_ = Plan::hook(value_, rows_);
  const bool shared_out_again = ownership_dead_ > dead_at_begin_;
  if (host_.planted.hook_twice && shared_out_again) value_ = Plan::hook(value_, rows_);
}

std::uint64_t SimWorker::losses() const {
  std::uint64_t losses = 0;
  const std::uint32_t me = index_in(table_);
  for (std::uint32_t v = 0; v < host_.plan.virtual_workers; ++v) {
    const bool known = !host_.planted.records_lack_loss || ownership_->owner(v) == me;
    losses = mix(losses, known ? board_->recorded(txn_)[v].value : 0);
  }
  return losses;
}

// As some share's record says.
bool SimWorker::asks_to_end() const {
  const bool known = !host_.planted.records_lack_end || ownership_->owner(0) == index_in(table_);
  return txn_ != 0 && txn_ == host_.plan.asks_to_end && known;
}

// Oracle: a table up to that of the next step is out and does not list this worker, so that step
// does not wait for it.
bool SimWorker::passed_over() const {
  for (std::uint64_t txn = txn_ + 1;; ++txn) {
    const auto found = board_->history.find(txn);
    if (found == board_->history.end()) return false;
    if (!found->second.has(uid())) return true;
    if (is_step(txn)) return false;
  }
}

}  // namespace lockstep::simulation
