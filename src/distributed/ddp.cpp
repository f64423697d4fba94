#include "lockstep/ddp.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <sstream>

#include "base/guard.h"
#include "base/hash.h"
#include "ddp/reducer.h"
#include "distributed/process_group.h"
#include "lockstep/state.h"

namespace lockstep {
namespace {

void require(const Status& status) {
  if (!status.ok()) throw DistributedError(status.error());
}

template <class T>
T require(Result<T> result) {
  if (!result.ok()) throw DistributedError(result.error());
  return *std::move(result);
}

std::string first_different_line(const std::string& first, const std::string& other, int rank) {
  std::istringstream a(first), b(other);
  std::string line_a, line_b;
  do {  // both are read, or the shorter one's end would pair with the other's last line
    std::getline(a, line_a);
    std::getline(b, line_b);
  } while (a && b && line_a == line_b);
  return "rank 0 has '" + (a ? line_a : "nothing more") + "', rank " + std::to_string(rank) +
         " has '" + (b ? line_b : "nothing more") + "'";
}

Result<std::string> text_of(ProcessGroup& group, int rank, const std::string& mine) {
  at::Tensor size = at::scalar_tensor(static_cast<std::int64_t>(mine.size()), at::kLong);
  LOCKSTEP_TRY(group.broadcast(size, rank));
  at::Tensor text = at::zeros({size.item<std::int64_t>()}, at::kChar);
  if (group.rank() == rank)
    std::copy(mine.begin(), mine.end(), text.mutable_data_ptr<std::int8_t>());
  LOCKSTEP_TRY(group.broadcast(text, rank));
  return std::string(reinterpret_cast<const char*>(text.const_data_ptr()),
                     static_cast<std::size_t>(text.numel()));
}

// Names, shapes, dtypes and what is frozen must be the same in all ranks; compared by hash, then
// the difference is found. All ranks tell the same.
Status compare_signatures(ProcessGroup& group, const std::string& mine) {
  const auto hash = static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(mine))));
  LOCKSTEP_ASSIGN(const at::Tensor hashes, group.all_gather(at::scalar_tensor(hash, at::kLong)));
  const auto* all = hashes.const_data_ptr<std::int64_t>();
  const auto* odd = std::find_if(all, all + hashes.numel(), [&](auto h) { return h != all[0]; });
  if (odd == all + hashes.numel()) return {};
  const auto rank = static_cast<int>(odd - all);
  LOCKSTEP_ASSIGN(const std::string first, text_of(group, 0, mine));
  LOCKSTEP_ASSIGN(const std::string other, text_of(group, rank, mine));
  return Error{ErrorKind::kUsage, "the module's parameters and buffers differ between ranks: " +
                                      first_different_line(first, other, rank)};
}

}  // namespace

Status catch_errors(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const DistributedError& error) {
    return error.error();
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, words_of(error)};
  }
}

class DdpEngine::Impl {
 public:
  Impl(torch::nn::Module& module, ProcessGroup& group, const DdpOptions& options);
  void before_forward();
  bool set_sync(bool sync) { return std::exchange(sync_, sync); }
  void sync_every_backward();
  const Status& check();

 private:
  void begin_backward();
  void broadcast_all(const std::vector<TrainState::Named>& tensors);
  void make_exchange(distributed::GroupState& group);
  void after_backward();
  void wait_whole();

  ProcessGroup& group_;
  DdpOptions options_;
  TrainState state_;
  std::unique_ptr<ddp::Reducer> reducer_;
  std::unique_ptr<comm::Exchange> exchange_;
  coord::Table table_;  // of the next synchronised backward
  Status failed_;       // the first cause, for good
  bool sync_ = true;
  bool begun_ = false;  // this transaction's exchange
  bool every_backward_ = false;
};

DdpEngine::Impl::Impl(torch::nn::Module& module, ProcessGroup& group, const DdpOptions& options)
    : group_(group), options_(options) {
  if (!(options.bucket_cap_mb > 0))
    throw DistributedError({ErrorKind::kUsage, "DistributedDataParallel: bucket_cap_mb is " +
                                                   std::to_string(options.bucket_cap_mb) +
                                                   "; it must be above 0"});
  require(state_.add("module", module));
  require(state_.check_dense());
  require(compare_signatures(group, state_.signature() + state_.frozen()));
  broadcast_all(state_.model());
  make_exchange(state_of(group));
}

void DdpEngine::Impl::make_exchange(distributed::GroupState& group) {
  std::vector<ddp::Parameter> parameters;
  for (const TrainState::Named& p : state_.parameters()) parameters.push_back({p.name, p.tensor});
  ddp::ReducerOptions options;
  options.buckets.bucket_bytes = static_cast<std::uint64_t>(options_.bucket_cap_mb * 1024 * 1024);
  options.find_unused_parameters = options_.find_unused_parameters;
  options.keep_gradients = true;
  reducer_ = require(ddp::Reducer::create(std::move(parameters), options));
  table_ = group.table;
  comm::ExchangePlan plan;
  plan.virtual_workers = static_cast<std::uint32_t>(table_.members.size());
  plan.buckets = reducer_->bucket_specs();
  plan.scale = 1.0F / static_cast<float>(plan.virtual_workers);
  exchange_ = group.engine.make_exchange(std::move(plan));
  reducer_->attach(*exchange_);
  // Nothing is summed before a backward has begun, and nothing is left of it when it returns.
  reducer_->on_gradients([this](bool first) {
    if (!first) return;
    torch::autograd::Engine::get_default_engine().queue_callback([this] { after_backward(); });
  });
}

void DdpEngine::Impl::broadcast_all(const std::vector<TrainState::Named>& tensors) {
  for (const TrainState::Named& named : tensors) {
    at::Tensor tensor = named.tensor;
    require(group_.broadcast(tensor));
  }
}

const Status& DdpEngine::Impl::check() {
  if (failed_.ok()) failed_ = state_.check_modules();
  if (failed_.ok()) failed_ = state_.check_frozen();
  return failed_;
}

void DdpEngine::Impl::before_forward() {
  const bool to_backward = at::GradMode::is_enabled();
  require(to_backward ? check() : failed_);
  // Of a forward whose backward never came; one without gradients leaves what another began.
  if (to_backward) reducer_->drop_share();
  if (!sync_) return;
  if (options_.broadcast_buffers) broadcast_all(state_.buffers());
  if (to_backward) begin_backward();
}

void DdpEngine::Impl::sync_every_backward() {
  every_backward_ = true;
  begin_backward();
}

void DdpEngine::Impl::begin_backward() {
  if (!begun_) require(failed_ = exchange_->begin(table_));
  begun_ = true;
  const auto leaf = static_cast<std::uint32_t>(group_.rank());
  const auto ranks = static_cast<std::uint32_t>(group_.world_size());
  reducer_->begin_share(ddp::fold_step(leaf, coord::cover(leaf, 1, ranks).front(), ranks));
}

void DdpEngine::Impl::after_backward() {
  failed_ = reducer_->end_share();
  if (check().ok()) wait_whole();  // a forward may have added some
  if (!failed_.ok()) {
    exchange_->abort(failed_.error());
    require(failed_);
  }
  reducer_->set_gradients();
  table_.txn = Txn(table_.txn.value() + 1);
  begun_ = false;
  if (every_backward_) begin_backward();
}

void DdpEngine::Impl::wait_whole() {
  const auto whole = exchange_->wait([] { return true; }, state_of(group_).deadline());
  if (!whole.ok() && whole.error().kind == ErrorKind::kTimedOut)
    failed_ = Error{ErrorKind::kTimedOut,
                    "not all ranks have come through backward within " +
                        std::to_string(state_of(group_).options.timeout.count()) +
                        " ms (ProcessGroupOptions::timeout); " + whole.error().message};
  else if (!whole.ok())
    failed_ = whole.error();
  else if (*whole == comm::Wait::kChanged)
    failed_ = state_of(group_).peer_lost();
}

DdpEngine::DdpEngine(torch::nn::Module& module, ProcessGroup& group, const DdpOptions& options)
    : impl_(std::make_unique<Impl>(module, group, options)) {}
DdpEngine::DdpEngine(DdpEngine&&) noexcept = default;
DdpEngine::~DdpEngine() = default;
void DdpEngine::before_forward() { impl_->before_forward(); }
bool DdpEngine::set_sync(bool sync) { return impl_->set_sync(sync); }
void DdpEngine::sync_every_backward() { impl_->sync_every_backward(); }
const Status& DdpEngine::check() { return impl_->check(); }

}  // namespace lockstep
