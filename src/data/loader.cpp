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
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

std::string name_of(const ShareId& share) {
  return "epoch " + std::to_string(share.at.epoch) + ", step " + std::to_string(share.at.step) +
         ", virtual worker " + std::to_string(share.v);
}

class PrefetchingLoader final : public Loader {
 public:
  PrefetchingLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<DataOrder> order,
                    LoaderOptions options)
      : dataset_(std::move(dataset)), order_(std::move(order)), options_(options) {}

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
    if (auto entry = take(share)) return wait_for(*entry);
    return compute(share);
  }

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
  struct Entry {
    explicit Entry(const ShareId& id) : share(id) {}
    const ShareId share;
    bool begun = false;
    std::optional<Result<Batch>> result;
  };
  using Entries = std::vector<std::shared_ptr<Entry>>;

  static std::shared_ptr<Entry> find(const Entries& entries, const ShareId& share) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& e) { return e->share == share; });
    return found == entries.end() ? nullptr : *found;
  }

  // A pure function of the share: whoever computes it, and when, gets the same bits.
  Result<Batch> compute(const ShareId& share) const {
    LOCKSTEP_ASSIGN(const std::vector<std::int64_t> ids, order_->ids(share.at, share.v));
    const Pass pass{order_->plan().seed, share.at.epoch, true};
    return guarded("data set, " + name_of(share), ErrorKind::kInternal,
                   [&] { return dataset_->get(ids, pass); });
  }

  // The share's entry if a thread has begun it, out of the list in any case: each batch is
  // delivered once.
  std::shared_ptr<Entry> take(const ShareId& share) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Entry> entry = find(entries_, share);
    std::erase(entries_, entry);
    return entry != nullptr && entry->begun ? entry : nullptr;
  }

  Result<Batch> wait_for(Entry& entry) {
    const Deadline deadline = Deadline::in(options_.patience);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!done_.wait_until(lock, deadline.point(), [&] { return entry.result.has_value(); }))
      return Error{ErrorKind::kTimedOut, "loader: the batch of " + name_of(entry.share) +
                                             " is not ready after " +
                                             std::to_string(options_.patience.count()) +
                                             " s; the data set is too slow or hangs"};
    return *std::move(entry.result);
  }

  void start_threads() {
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
      work_.wait(lock, [&] { return stop_ || (entry = first_unbegun()) != nullptr; });
      if (stop_) return;
      entry->begun = true;
      lock.unlock();
      Result<Batch> result = compute(entry->share);
      lock.lock();
      entry->result = std::move(result);
      done_.notify_all();
    }
  }

  std::shared_ptr<Entry> first_unbegun() const {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [](const auto& e) { return !e->begun; });
    return found == entries_.end() ? nullptr : *found;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<DataOrder> order_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable work_;  // something to begin, or stop_
  std::condition_variable done_;  // a result is there
  Entries entries_;               // as asked for by the last prefetch(), less what was taken
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
