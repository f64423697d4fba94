#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/deadline.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/signals_blocked.h"
#include "data/pieces.h"
#include "data/substitutes.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

std::string name_of(const ShareId& share) {
  return "epoch " + std::to_string(share.at.epoch) + ", step " + std::to_string(share.at.step) +
         ", virtual worker " + std::to_string(share.v);
}

template <class F>
auto guarded_for(const ShareId& share, F&& f) {
  return guarded([&] { return "data set, " + name_of(share); }, ErrorKind::kInternal,
                 std::forward<F>(f));
}

class PrefetchingLoader final : public Loader {
 public:
  PrefetchingLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<DataOrder> order,
                    LoaderOptions options)
      : dataset_(std::move(dataset)),
        in_pieces_(dynamic_cast<const InPieces*>(dataset_.get())),
        substitutes_(*dataset_),
        order_(std::move(order)),
        options_(options) {}

  ~PrefetchingLoader() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const DataPlan& plan() const override { return order_->plan(); }

  Result<Batch> get(const ShareId& share) override {
    if (in_pieces_ != nullptr) start_threads();  // they help with the first one, too
    std::unique_lock<std::mutex> lock(mutex_);
    waited_ = take(share);
    Result<Batch> batch = finish(lock, *waited_);
    waited_.reset();
    return batch;
  }

  std::int64_t left_out() const override { return substitutes_.count(); }

  void prefetch(std::vector<ShareId> next) override {
    if (options_.prefetch_threads == 0) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::vector<std::shared_ptr<Entry>> wanted;
      for (const ShareId& share : next) {
        if (find(wanted, share) != nullptr) continue;
        const std::shared_ptr<Entry> known = find(entries_, share);
        wanted.push_back(known != nullptr ? known : std::make_shared<Entry>(share));
      }
      entries_ = std::move(wanted);
    }
    work_.notify_all();
    start_threads();
  }

 private:
  using Ids = std::vector<std::int64_t>;

  // A batch that is asked for, or may be next.
  struct Entry {
    explicit Entry(const ShareId& id) : share(id) {}
    bool has_piece() const { return next < count; }
    bool has_work() const { return !begun || has_piece(); }

    // After a batch that came out short: from the start, now that it is known who stands in.
    void begin_again() {
      begun = false;
      pieces.reset();
      count = next = filled = 0;
    }

    const ShareId share;
    bool begun = false;
    Ids asked, ids;                  // the order's; and that are made, who stands in among them
    std::string generator;           // the default one's state, before what draws from it
    std::unique_ptr<Pieces> pieces;  // null: whole, by who has begun it
    std::size_t count = 0;           // of the pieces
    std::size_t next = 0;            // to begin
    std::size_t filled = 0;
    std::optional<Error> error;  // the first one's in the order of pieces, as get() has it
    std::size_t error_of = 0;
    std::optional<Result<Batch>> result;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  static std::shared_ptr<Entry> find(const Entries& entries, const ShareId& share) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& e) { return e->share == share; });
    return found == entries.end() ? nullptr : *found;
  }

  // The share's entry, out of the list: each batch is delivered once.
  std::shared_ptr<Entry> take(const ShareId& share) {
    std::shared_ptr<Entry> entry = find(entries_, share);
    std::erase(entries_, entry);
    return entry != nullptr ? entry : std::make_shared<Entry>(share);
  }

  // Helps where it can instead of waiting.
  Result<Batch> finish(std::unique_lock<std::mutex>& lock, Entry& entry) {
    while (!entry.result) {
      if (entry.has_work()) {
        work_on(lock, entry);
        continue;
      }
      const auto ready = [&] { return entry.result.has_value() || entry.has_work(); };
      if (!options_.patience)
        done_.wait(lock, ready);  // for a thread of this process, with which it ends
      else if (!done_.wait_until(lock, Deadline::in(*options_.patience).point(), ready))
        return Error{ErrorKind::kTimedOut, "loader: the batch of " + name_of(entry.share) +
                                               " is not ready after " +
                                               std::to_string(options_.patience->count()) +
                                               " s; the data set is too slow or hangs"};
    }
    return *std::move(entry.result);
  }

  // A part of an entry's work, without the lock: its beginning, or one piece. A pure function of
  // the share: whoever computes it, and when, gets the same bits.
  void work_on(std::unique_lock<std::mutex>& lock, Entry& entry) {
    if (entry.begun)
      fill_next(lock, entry);
    else
      begin(lock, entry);
  }

  void begin(std::unique_lock<std::mutex>& lock, Entry& entry) {
    entry.begun = true;
    lock.unlock();
    std::unique_ptr<Pieces> pieces;
    std::optional<Result<Batch>> result = compute(entry, pieces);
    lock.lock();
    if (result) return settle(lock, entry, *std::move(result));
    entry.count = pieces->count();
    entry.pieces = std::move(pieces);
    work_.notify_all();
    done_.notify_all();
  }

  Pass pass_of(const Entry& entry) const {
    return {order_->plan().seed, entry.share.at.epoch, true};
  }

  // Either the batch, or its pieces.
  std::optional<Result<Batch>> compute(Entry& entry, std::unique_ptr<Pieces>& pieces) const {
    auto asked = order_->ids(entry.share.at, entry.share.v);
    if (!asked.ok()) return asked.error();
    entry.asked = *std::move(asked);
    entry.ids = substitutes_.of(entry.asked);
    const Pass pass = pass_of(entry);
    if (in_pieces_ != nullptr) {
      auto made = guarded_for(entry.share, [&] { return in_pieces_->pieces(entry.ids, pass); });
      if (!made.ok()) return made.error();
      pieces = *std::move(made);
      if (pieces != nullptr && pieces->count() > 0) return std::nullopt;
    }
    return guarded_for(entry.share, [&]() -> Result<Batch> {
      LOCKSTEP_TRY(draw_alike(entry));
      return dataset_->get(entry.ids, pass);
    });
  }

  // What the data set draws from the default generator, which threads do not (Shares sees to it):
  // the same when the batch is made again.
  Status draw_alike(Entry& entry) const {
    if (options_.prefetch_threads > 0) return {};
    if (entry.generator.empty()) {
      entry.generator = default_generator_state();
      return {};
    }
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    return set_generator_state(generator, entry.generator);
  }

  // Delivers it if it is whole. Else it is found out who stands in for what is missing, and all of
  // it is made again: no batch depends on what was known before.
  void settle(std::unique_lock<std::mutex>& lock, Entry& entry, Result<Batch> batch) {
    if (batch.ok() && batch->ids.size() != entry.ids.size()) {
      lock.unlock();
      const Status learnt = guarded_for(
          entry.share, [&] { return substitutes_.learn(entry.ids, batch->ids, pass_of(entry)); });
      lock.lock();
      if (learnt.ok()) {
        entry.begin_again();
        work_.notify_all();
        return done_.notify_all();
      }
      batch = learnt.error();
    }
    if (batch.ok() && entry.asked != entry.ids) batch->asked = std::move(entry.asked);
    entry.result = std::move(batch);
    done_.notify_all();
  }

  void fill_next(std::unique_lock<std::mutex>& lock, Entry& entry) {
    const std::size_t piece = entry.next++;
    lock.unlock();
    const Status filled = guarded_for(entry.share, [&] { return entry.pieces->fill(piece); });
    lock.lock();
    if (!filled.ok() && (!entry.error || piece < entry.error_of)) {
      entry.error = filled.error();
      entry.error_of = piece;
    }
    if (++entry.filled == entry.count) end(lock, entry);
  }

  void end(std::unique_lock<std::mutex>& lock, Entry& entry) {
    lock.unlock();
    Result<Batch> batch = entry.error
                              ? Result<Batch>(*entry.error)
                              : guarded_for(entry.share, [&] { return entry.pieces->take(); });
    lock.lock();
    settle(lock, entry, std::move(batch));
  }

  void start_threads() {
    if (threads_.size() == static_cast<std::size_t>(options_.prefetch_threads)) return;
    const SignalsBlocked blocked;
    try {
      while (threads_.size() < static_cast<std::size_t>(options_.prefetch_threads))
        threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      log_warning(std::string("loader: no thread for prefetching (a limit on processes?): ") +
                  error.what() + "; batches are made when they are asked for");
      options_.prefetch_threads = static_cast<int>(threads_.size());
    }
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      std::shared_ptr<Entry> entry;
      // Ended by the destructor, which is the only deadline an idle thread has.
      work_.wait(lock, [&] { return stop_ || (entry = first_with_work()) != nullptr; });
      if (stop_) return;
      work_on(lock, *entry);
    }
  }

  std::shared_ptr<Entry> first_with_work() const {
    if (waited_ != nullptr && waited_->has_work()) return waited_;
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [](const auto& e) { return e->has_work(); });
    return found == entries_.end() ? nullptr : *found;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const InPieces* const in_pieces_;  // the same set, if it can
  Substitutes substitutes_;
  const std::shared_ptr<DataOrder> order_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable work_;   // something to begin, or stop_
  std::condition_variable done_;   // a result is there, or pieces
  std::shared_ptr<Entry> waited_;  // by get(): comes first
  Entries entries_;                // as asked for by the last prefetch(), less what was taken
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Loader>> Loader::make(std::shared_ptr<const Dataset> dataset, DataPlan plan,
                                             LoaderOptions options) {
  constexpr int kMaxThreads = 256;
  if (dataset == nullptr) return Error{ErrorKind::kUsage, "loader: no data set"};
  if (plan.dataset_size != dataset->size())
    return Error{ErrorKind::kUsage, "loader: the plan is for " + std::to_string(plan.dataset_size) +
                                        " samples, the data set has " +
                                        std::to_string(dataset->size())};
  if (options.prefetch_threads < 0 || options.prefetch_threads > kMaxThreads)
    return Error{ErrorKind::kUsage, "loader: prefetch_threads is " +
                                        std::to_string(options.prefetch_threads) +
                                        ", must be 0 to " + std::to_string(kMaxThreads)};
  LOCKSTEP_ASSIGN(std::shared_ptr<DataOrder> order, DataOrder::make(std::move(plan)));
  return std::unique_ptr<Loader>(
      std::make_unique<PrefetchingLoader>(std::move(dataset), std::move(order), options));
}

}  // namespace lockstep::data
