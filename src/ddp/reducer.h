// Gradients on their way into the exchange: hooks on the parameters lend, copy or fold each
// gradient into this worker's pieces as backward produces it, and publish a bucket as soon as its
// last gradient is there, so that sums overlap with the rest of backward.
//
// Order of calls, per transaction: for each own leaf { begin_share(step); backward; end_share() }.
// Unless `keep_gradients`, gradients never stay in `grad()`: the hook takes them and leaves it
// undefined, which is what makes the next share's first accumulation a move instead of an addition
// (and keeps −0).
//
// A share of several backwards (gradient accumulation): more_backwards(true) before the first,
// more_backwards(false) before the last. Until then autograd adds up in `grad()`, and nothing is
// taken.
//
// A share asks for the gradients of those optimizers' parameters that choose() has named, and that
// are not frozen, and gives them alone to the exchange: what else backward produces is dropped.
// With `may_freeze` parameters may be frozen and unfrozen between shares: read_frozen(). What the
// closure of a share sets in between is undone at its end.
//
// Ownership: keeps the parameters alive; removes its hooks in the destructor. A parameter that is
// given twice (a submodule under two names) counts once, under the first. Errors: kUsage for unused
// parameters and sparse gradients (named), and for one that another reducer has.
// Threads: all calls and hooks on the thread that runs backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "ddp/bucketing.h"
#include "ddp/fold.h"
#include "lockstep/status.h"

namespace lockstep::ddp {

struct Parameter {
  std::string name;
  at::Tensor tensor;
  std::uint64_t optimizers = 1;  // those that update it, a bit each; 0: none, it is never summed
};

struct ReducerOptions {
  BucketOptions buckets;
  // PyTorch's name: unused ones count as zeros instead of an error
  bool find_unused_parameters = false;
  bool keep_gradients = false;  // grad() is the loop's own: hooks copy it and leave it
  // grad() is a copy of the sum, which may be written to; without, no code of the program sees it.
  bool copy_gradients = false;
  bool may_freeze = false;  // parameters of optimizers: what does not require a gradient may later
};

class Reducer {
 public:
  // Parameters that do not require a gradient are left alone, without `may_freeze`. All dense, on
  // the CPU.
  static Result<std::unique_ptr<Reducer>> create(std::vector<Parameter> parameters,
                                                 const ReducerOptions& options);
  ~Reducer();

  // The buckets of an ExchangePlan (one more, of counters, with find_unused_parameters).
  std::vector<comm::BucketSpec> bucket_specs() const;
  // Must be called before the first share; `exchange` outlives the reducer's use of it.
  void attach(comm::Exchange& exchange);

  // Of which optimizers the next shares, and the sums, are: a bit each. All, at first.
  void choose(std::uint64_t optimizers);
  // Which parameters are frozen (requires_grad false): as they are now. None without may_freeze.
  void read_frozen();
  // The same as words, a bit each in parameters()' order; setting them sets requires_grad, too.
  std::size_t frozen_words() const { return frozen_.size(); }
  void write_frozen(std::span<coord::Word> words) const;
  void set_frozen(std::span<const coord::Word> words);

  // The buckets that have none of their parameters, or frozen ones alone.
  const std::vector<std::uint32_t>& left_out() const { return left_out_; }
  // Whether the exchange has left out those, and no other: else what would be read as a sum is an
  // earlier one. Once it is whole. kInternal.
  Status check_left_out() const;

  void begin_share(FoldStep step);
  // A share whose gradients go nowhere: only their hashes are wanted.
  void begin_rehearsal(std::uint32_t leaf);
  // After either of the two: XXH3 of each parameter's gradient, in parameters()' order, as backward
  // produces them, and before anything of it is published; 1 where the share has none, 0 where none
  // is wanted, or not yet. `hashes` has one word for each, and outlives the share. `there`: words
  // that are not 0 stay, and a gradient of another hash is refused before it is given to a sum.
  void hash_gradients(std::span<coord::Word> hashes, bool there = false);
  // Of the last share, the first that was refused so.
  std::optional<std::size_t> other_gradient() const { return other_gradient_; }
  Status end_share();
  // The share of which this is the end takes no part: what it has no gradients for counts as zeros.
  void take_no_part() { absent_ = true; }
  // Whether the next backward of this share is not its last; false after begin_share().
  void more_backwards(bool more) {
    more_ = more;
    several_ = several_ || more;
  }
  // Those that are summed, in the order given, each once.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Forgets a share whose backward has not begun.
  void drop_share() { in_share_ = false; }
  // How many gradients came in this share's backwards.
  std::uint64_t gradients_seen() const { return seen_; }
  // Called at each gradient of a share, on backward's thread; `first` of its share.
  void on_gradients(std::function<void(bool first)> call) { gradient_call_ = std::move(call); }

  // Sets grad() of every parameter to a tensor over the exchange's sums (shared memory, read-only
  // by agreement) or, with `copy_gradients`, to a copy; undefined where no share used it. With
  // `keep_gradients` the sums are copied into grad(), which stays as it is where no share used it.
  void set_gradients();
  // The first parameter, in their order, whose sum has an infinity or a NaN; nullptr: none has.
  // Once the exchange is whole.
  const std::string* first_not_finite();
  // grad() of every parameter becomes undefined.
  void clear_gradients();

 private:
  class Hook;
  bool frozen(std::size_t index) const { return (frozen_[index / 64] >> index % 64 & 1) != 0; }
  bool chosen(std::size_t index) const { return (parameters_[index].optimizers & chosen_) != 0; }
  bool wanted(std::size_t index) const { return chosen(index) && !frozen(index); }
  void find_left_out();
  Reducer(std::vector<Parameter> parameters, const ReducerOptions& options);
  void on_gradient(std::size_t index);
  void take(std::size_t index);
  void begin();
  Status refuse_sparse(std::size_t index) const;
  Status note_hash(std::size_t index, std::uint64_t hash);
  void deposit(std::size_t index, const at::Tensor& gradient);
  void put(std::size_t index, const at::Tensor& gradient);
  void bucket_done(std::uint32_t bucket);
  void publish_used();
  const std::vector<at::Tensor>& sums();
  at::Tensor region(std::size_t index, std::uint32_t leaf);
  Status share_is_whole();
  Status all_fired() const;
  Status undo_flags();

  std::vector<Parameter> parameters_;
  std::vector<const Hook*> hooks_;  // the parameters' own
  ReducerOptions options_;
  BucketLayout layout_;
  comm::Exchange* exchange_ = nullptr;
  std::uint64_t chosen_ = 0;
  std::vector<std::uint64_t> frozen_;    // a bit each
  std::vector<std::uint32_t> left_out_;  // ascending
  FoldStep step_;
  bool in_share_ = false, rehearsal_ = false;
  std::span<coord::Word> hashes_;  // empty: not wanted
  std::optional<std::size_t> other_gradient_;
  Status refused_;                       // a gradient of this share that cannot be summed
  std::uint64_t seen_ = 0;               // gradients, in this share
  bool more_ = false, several_ = false;  // see more_backwards()
  bool absent_ = false;                  // see take_no_part()
  std::function<void(bool)> gradient_call_;
  std::vector<at::Tensor> sums_;  // by parameter
  std::vector<bool> fired_;
  std::vector<at::Tensor> lent_;        // to the exchange, until the sums are there
  std::vector<std::uint32_t> missing_;  // per bucket: gradients not there yet
};

}  // namespace lockstep::ddp
