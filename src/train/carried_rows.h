// The rows of the share that is being computed: those of the state, or what it has carried itself
// so far. The state's stay as they are until the update is committed.
//
// Ownership: refers to the state. Errors: thrown, as they are of calls in a closure. Threads: one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "train/run_spec.h"

namespace lockstep::training {

// Makes the state's rows, of as many virtual workers as the plan has. kUsage: a dtype that
// checkpoints do not have; another number of virtual workers is asked for.
Status open_rows(const RunSpec& spec, TrainState& state);
// For the manifest: names, shapes and dtypes of rows; empty: none.
std::string rows_in_words(const TrainState& state);

class CarriedRows {
 public:
  explicit CarriedRows(const TrainState& state) : state_(state) {}

  void begin_update() { carried_any_ = false; }
  void begin_share(std::int64_t virtual_worker);
  // Numbers the calls of closures: a Share is of one of them.
  std::uint64_t begin_call() { return ++call_; }
  std::uint64_t call() const { return call_; }

  at::Tensor read(const std::string& name) const;
  void write(const std::string& name, const at::Tensor& next);
  // Whether a share of this update has carried something, here.
  bool carried_any() const { return carried_any_; }
  // Of the share: what it carries to its next step, see transaction/rows.h.
  void store(std::span<std::byte> block) const;

 private:
  at::Tensor row(std::size_t number) const;
  const TrainState& state_;
  std::int64_t virtual_worker_ = 0;
  std::uint64_t call_ = 0;
  bool carried_any_ = false;
  std::vector<at::Tensor> carried_;  // by number; undefined: not so far
};

}  // namespace lockstep::training
