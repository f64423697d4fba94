// Everything that a run's next step depends on, registered by name: what checkpoints save,
// newcomers copy, and hashes cover. Steps and trainers reach models and optimizers only through
// here, so nothing can be forgotten.
//
// Ownership: keeps references; what is added must outlive it. Errors: kUsage for a name given
// twice, a tensor's full name too, and for an optimizer or a scheduler that is there already.
// Threads: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/lr_scheduler.h"
#include "lockstep/named_tensors.h"
#include "lockstep/optim.h"
#include "lockstep/status.h"

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace lockstep {

// PyTorch's state_dict(): parameters and buffers under their names, in its order (each module's
// parameters, its buffers, then its children's), for save_safetensors(), save_checkpoint() and
// weights_sha256(). The tensors are the module's own.
NamedTensors state_dict(const torch::nn::Module& module);

// What TrainState::add() takes by itself; and what holds something: a module holder of torch::nn
// (torch::nn::Linear), a std::shared_ptr, a pointer.
template <class T>
concept StatePart =
    std::is_convertible_v<T&, torch::nn::Module&> || std::is_convertible_v<T&, Optimizer&> ||
    std::is_convertible_v<T&, LRScheduler&> || std::is_convertible_v<T&, GradScaler&> ||
    std::is_convertible_v<T&, MasterWeights&> || std::is_convertible_v<T&, const NamedTensors&>;
template <class T>
concept Holder = !StatePart<T> && requires(T & holder) {
  holder ? 0 : 1;
  *holder;
};

class TrainState {
 public:
  struct Named {
    std::string name;
    at::Tensor tensor;
  };
  // A small part that is no tensor (a schedule, a generator's state). Text must be the same in all
  // workers at the same step; all texts together take at most 1 MiB.
  struct Text {
    std::string name;
    std::function<std::string()> save;
    std::function<Status(const std::string&)> load;
    bool hashed = true;  // false: it has times in it, other ones in each run; then in no hash
    // In no checkpoint while it is empty; a checkpoint without it loads as "".
    bool optional = false;
  };
  // A module, or a group of one's own tensors that an optimizer updates: so many tensors of
  // model(), behind those of the entries before. Their names begin with `prefix`.
  struct InModel {
    std::string name, prefix;
    std::size_t tensors = 0;
  };

  // Parameters and buffers under the module's own names, as in state_dict(). One module has no
  // prefix; more get "NAME.".
  Status add(const std::string& name, torch::nn::Module& module);
  Status add(const std::string& name, Optimizer& optimizer);
  Status add(const std::string& name, LRScheduler& scheduler);
  // At most one: the run's steps scale their losses by it (lockstep/amp.h).
  Status add(const std::string& name, GradScaler& scaler);
  // After their model: its parameters are the masters from then on.
  Status add(const std::string& name, MasterWeights& masters);
  // One's own tensors: of fixed shape, at an address that stays, the same in all workers at the
  // same step. Those that an optimizer of the state updates are parameters like a module's: their
  // gradients are summed, and they are part of model(), as "NAME.KEY".
  Status add(const std::string& name, const NamedTensors& tensors);
  Status add(Text text);
  // What it holds, which has to stay there: `torch::nn::Linear net(2, 1); add("model", net)`.
  // Errors: also kUsage where it holds nothing (nullptr).
  template <Holder T>
  Status add(const std::string& name, T& holder) {
    if (!holder) return holds_nothing(name);
    return add(name, *holder);
  }
  // Anything else, said in one sentence.
  template <class T>
  requires(!StatePart<T> && !Holder<T>) Status add(const std::string& name, T&& other);

  // What each virtual worker's share carries to its next step: the hidden state of truncated
  // backpropagation through time, an environment that lives on. The library makes a row for each
  // virtual worker, each beginning as `row` (dense, on the CPU; copied), and keeps the rows in
  // checkpoints, hashes and newcomers. A share reads its row with Share::carried() and sets the
  // next one with Share::carry(). A run with rows goes on with its number of virtual workers alone.
  // Before Step::open() or Trainer::fit(). Errors: kUsage also for a name that begins with
  // "lockstep.", which are the library's.
  Status add_carried(const std::string& name, const at::Tensor& row);
  // All rows, [V, …] with the shape of one: after Step::open(). In the loop's own code, between
  // next() and run(), they may be written to: in all workers alike, as a function of
  // global_step(). Errors: kUsage for an unknown name, which lists the known ones, and before
  // open().
  Result<at::Tensor> carried(const std::string& name) const;

  const std::vector<Named>& parameters() const { return parameters_; }
  // The same, as backward gives gradients to them: with MasterWeights the half weights.
  const std::vector<Named>& leaves() const { return leaves_; }
  const std::vector<Named>& buffers() const { return buffers_; }
  // The optimizers', the schedulers', the scaler's, one's own, and, once a run is open, what is
  // carried, as "carried.NAME".
  const std::vector<Named>& other_tensors() const { return other_tensors_; }
  // Of those: the ones that an optimizer updates, and the others.
  std::vector<Named> own_parameters() const;
  std::vector<Named> not_of_model() const;
  const std::vector<Optimizer*>& optimizers() const { return optimizers_; }
  const std::string& optimizer_name(std::size_t number) const { return optimizer_names_[number]; }
  const std::vector<LRScheduler*>& schedulers() const { return schedulers_; }
  GradScaler* scaler() const { return scaler_; }  // nullptr: none
  const std::vector<MasterWeights*>& master_weights() const { return master_weights_; }
  const std::vector<Text>& texts() const { return texts_; }
  // In the order of add_carried(), by the name given there: rows, [V, …]; before open() the one
  // that all begin as.
  const std::vector<Named>& carried_rows() const { return carried_; }
  Result<std::size_t> carried_number(const std::string& name) const;  // its place there
  // A run's, once it knows how many virtual workers there are.
  Status open_carried(std::int64_t virtual_workers);
  std::vector<const torch::nn::Module*> modules() const;  // those that were added
  // Parameters and buffers, in state_dict()'s order, and own_parameters().
  std::vector<Named> model() const;
  std::vector<InModel> in_model() const;

  // SHA-256 of the model: names sorted, each name's bytes, then the tensor's contiguous
  // little-endian bytes.
  std::string weights_sha256() const;
  // The same over the other tensors and the texts too.
  std::string sha256() const;

  std::size_t tensor_count() const;
  // XXH3-64 of each part (parameters, buffers, the other tensors, the program's own hashed texts),
  // and of all: what workers compare now and then.
  std::size_t part_count() const;
  std::vector<std::uint64_t> hashes() const;
  std::uint64_t xxh3() const;
  // Of those, in words: "the parameter 'fc.weight'".
  std::string part_in_words(std::size_t number) const;

  // One line per tensor of the model: name, shape, dtype and, where it is not contiguous, strides.
  std::string signature() const;
  // One line per parameter that gets no gradient (requires_grad false).
  std::string frozen() const;
  // Whether the modules have the parameters that they had when they were added. Errors: kUsage,
  // which names it. 0.2 us per parameter: each step asks.
  Status check_modules() const;
  // Whether no parameter that was frozen when its module was added gets a gradient now. Errors:
  // kUsage, which names it. For DistributedDataParallel; a run may freeze and unfreeze.
  Status check_frozen() const;
  // Whether each tensor has the memory, shape and dtype that it had at keep_places(), which a run
  // calls once at its start. Errors: kUsage, which names it. 10 ns per tensor: each step asks.
  void keep_places();
  Status check_places() const;
  // Whether all gradients will be dense ones, which alone are summed. Errors: kUsage, which names
  // the weight of an Embedding or EmbeddingBag with sparse(true); a frozen one may have it.
  Status check_dense() const;

 private:
  // A parameter, and whether it gets a gradient.
  using Wanted = std::vector<std::pair<const c10::TensorImpl*, bool>>;
  struct Added {
    std::string name, prefix;
    const torch::nn::Module* module;
    Wanted parameters;
  };
  static void append(const torch::nn::Module& module, Wanted& parameters);
  static std::string difference(const Added& added);
  static Error changed(const Added& added, const std::string& what);
  // Where a tensor lies, and how.
  struct Place {
    const void* data = nullptr;
    std::vector<std::int64_t> sizes, strides;
    at::ScalarType dtype = at::kFloat;
  };
  static Place place_of(const at::Tensor& tensor);
  static bool is_at(const at::Tensor& tensor, const Place& place);
  static Error moved(const std::string& what, const at::Tensor& tensor, const Place& before);
  std::vector<Named> others(bool updated) const;
  Status claim(const std::string& name);
  static Error holds_nothing(const std::string& name);
  friend class Trainer;
  std::vector<std::string> names_;
  std::vector<Added> modules_;
  std::vector<std::string> order_;  // names of parameters_ and buffers_ as in a state_dict
  std::vector<Named> parameters_, leaves_, buffers_, other_tensors_;
  std::vector<std::pair<std::string, std::size_t>> groups_;  // of one's own: up to which of those
  std::vector<Place> places_;                                // in the order of hashes()
  std::vector<Optimizer*> optimizers_;
  std::vector<std::string> optimizer_names_;
  std::vector<LRScheduler*> schedulers_;
  GradScaler* scaler_ = nullptr;
  std::vector<MasterWeights*> master_weights_;
  std::vector<Text> texts_;
  std::vector<Named> carried_;
  std::int64_t carried_for_ = 0;  // virtual workers; 0: no run is open
};

template <class T>
requires(!StatePart<T> && !Holder<T>) Status TrainState::add(const std::string&, T&&) {
  using Part = std::remove_cvref_t<T>;
  constexpr bool kOfTorch = std::is_base_of_v<torch::optim::Optimizer, Part>;
  constexpr bool kTensor = std::is_base_of_v<at::TensorBase, Part>;
  static_assert(!kOfTorch,
                "an optimizer of torch::optim does not fit, as its state has no fixed place: take "
                "lockstep::SGD, Adam or AdamW (lockstep/optim.h), with the names and bits of "
                "Python's");
  static_assert(!kTensor,
                "a tensor of the train state has a name in its group: "
                "state.add(\"counts\", {{\"episodes\", episodes}})");
  static_assert(kOfTorch || kTensor,
                "the train state takes a torch::nn module, a lockstep optimizer, scheduler, "
                "GradScaler or MasterWeights, none of them const, or tensors with their names, "
                "{{\"key\", tensor}}; whatever else has a text: state.add({\"name\", save, load})");
  return {};
}

}  // namespace lockstep
