// Which transaction is which: the run as a sequence of optimizer steps and epoch ends. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/ids.h"

namespace lockstep::training {

enum class Kind {
  kStep,
  kEvaluation,  // in an epoch, for lines and records
  kEpochEnd,    // the evaluation after an epoch's last step, and what follows from it
  kExport,      // the files that go with that end, the best checkpoint among them
};

constexpr bool ends_epoch(Kind kind) { return kind == Kind::kEpochEnd || kind == Kind::kExport; }

struct Position {
  std::int64_t epoch = 0;  // from 0
  std::int64_t step = 0;   // in the epoch, from 0; steps_per_epoch behind the last
  Kind kind = Kind::kStep;
  std::int64_t global_step = 0;  // steps of the run before this transaction
  std::int64_t update = 0;       // of its step, from 0
  // Steps 1, 2, 4, 8, …, where workers are compared: a loop that is wrong is told so soon, and all
  // of it costs little.
  bool is_early() const { return std::has_single_bit(static_cast<std::uint64_t>(global_step)); }
  // Its record has a hash of the state at its start, for whoever does the step again: whatever the
  // options are, so that records do not depend on how often a checkpoint is taken.
  bool notes_state() const {
    return kind == Kind::kStep && update == 0 && (is_early() || global_step % 32 == 0);
  }
};

struct Plan {
  // Of a run that a time limit alone ends: more than there is time for.
  static constexpr std::int64_t kEpochsInTime = 1'000'000;

  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;  // of the whole run; 0: no limit
  bool ends_epochs = false;    // an epoch's end is a transaction
  bool exports = false;        // and so are its files; needs ends_epochs
  bool ended_early = false;    // by the program: max_steps is where
  // Optimizer steps after which the time limit ends it; 0: it does not. The epoch that it breaks
  // has its end all the same, in transactions of its own behind the last step.
  std::int64_t stop_after = 0;
  // Of each virtual worker: the data plan's steps are these. An epoch's last step may have fewer.
  std::int64_t batches_per_epoch = 1;
  std::int64_t batches_per_step = 1;
  bool by_duration = false;           // max_steps is what a duration of steps or samples comes to
  std::int64_t evaluated_epochs = 1;  // of every so many epochs the last one's end is evaluated
  std::int64_t evaluation_every = 0;  // and each epoch in it, after so many steps; 0: only there
  std::int64_t updates_per_step = 1;  // a transaction each
  bool has_epochs = true;  // false: of a run without data, one that has no end of its own
  // That of epoch 0; not 0 once the run has gone on with another V: its transactions are numbered
  // on, whatever number its steps have now. Below 0 where there are more of them than before.
  std::int64_t first_txn = 0;

  void end_after(std::int64_t steps) {
    max_steps = steps;
    ended_early = true;
  }

  std::int64_t first_batch(std::int64_t step) const { return step * batches_per_step; }
  std::int64_t batches_of(std::int64_t step) const {
    return std::min(batches_per_step, batches_per_epoch - first_batch(step));
  }

  // Each 64th step and, as what changes by the epoch changes there, each epoch's first one, if that
  // is no more often.
  bool looks_again(const Position& position) const {
    constexpr std::int64_t kEvery = 64;
    return position.global_step % kEvery == 0 || (position.step == 0 && steps_per_epoch >= kEvery);
  }

  // As the program was started: no time limit changes it, so schedules may stand on it.
  std::int64_t planned_steps() const {
    const std::int64_t all = steps_per_epoch * epochs;
    return max_steps > 0 ? std::min(all, max_steps) : all;
  }
  std::int64_t planned_epochs() const {  // with a last one that is not whole
    return (planned_steps() + steps_per_epoch - 1) / steps_per_epoch;
  }
  // Otherwise a time limit alone ends it, or the program.
  bool knows_its_end() const { return has_epochs ? epochs < kEpochsInTime : max_steps > 0; }
  std::int64_t total_steps() const {
    return stop_after > 0 ? std::min(planned_steps(), stop_after) : planned_steps();
  }
  bool stops() const { return stop_after > 0 && total_steps() == stop_after; }
  bool breaks_epoch() const { return stops() && ends_epochs && stop_after % steps_per_epoch != 0; }
  // Of an epoch, before the start of this step of it.
  std::int64_t evaluations_before(std::int64_t step) const {
    return evaluation_every > 0 ? std::min(step, steps_per_epoch - 1) / evaluation_every : 0;
  }
  bool evaluates_before(std::int64_t step) const {
    return step > 0 && evaluations_before(step) != evaluations_before(step - 1);
  }
  bool evaluates_end(std::int64_t epoch) const { return (epoch + 1) % evaluated_epochs == 0; }
  std::int64_t txns_behind_epoch() const { return (ends_epochs ? 1 : 0) + (exports ? 1 : 0); }
  // At most: a time limit's broken end may come behind an evaluation.
  std::int64_t txns_between_steps() const {
    return txns_behind_epoch() + (evaluations_before(steps_per_epoch) > 0 ? 1 : 0);
  }
  std::int64_t txns_in_epoch() const {
    return steps_per_epoch * updates_per_step + evaluations_before(steps_per_epoch);
  }
  std::int64_t txns_per_epoch() const { return txns_in_epoch() + txns_behind_epoch(); }
  // The last transaction of its epoch, which is no step.
  bool closes_epoch(Kind kind) const { return kind == (exports ? Kind::kExport : Kind::kEpochEnd); }
  Txn epoch_start(std::int64_t epoch) const {
    return Txn(static_cast<std::uint64_t>(first_txn + epoch * txns_per_epoch()));
  }
  // Behind the last step and its evaluation or, where its epoch is whole, behind that epoch's end.
  // A longer time limit goes on from here: so checkpoints never have a later place.
  Txn place_of_end() const {
    const std::int64_t steps = total_steps(), in_epoch = steps % steps_per_epoch;
    return Txn(
        epoch_start(steps / steps_per_epoch).value() +
        static_cast<std::uint64_t>(in_epoch * updates_per_step + evaluations_before(in_epoch)));
  }
  // A broken last epoch has no end, unless the time limit broke it.
  Txn end() const {
    const std::int64_t more = breaks_epoch() ? txns_behind_epoch() : 0;
    return Txn(place_of_end().value() + static_cast<std::uint64_t>(more));
  }
  // Of the run, where this transaction is the last that begins; an evaluation in the epoch goes
  // with the step behind it. 0: it has ended by then anyway.
  std::int64_t steps_if_last(Txn txn) const {
    if (txn >= end()) return 0;
    const Position position = at(txn);
    const std::int64_t steps = position.global_step + (ends_epoch(position.kind) ? 0 : 1);
    return steps < total_steps() ? steps : 0;
  }
  // The last update of its step.
  bool completes_step(const Position& position) const {
    return position.kind == Kind::kStep && position.update + 1 == updates_per_step;
  }
  bool in_broken_end(Txn txn) const { return breaks_epoch() && txn >= place_of_end(); }
  // Of a transaction of this V.
  Position at(Txn txn) const {
    const std::int64_t t = static_cast<std::int64_t>(txn.value()) - first_txn;
    Position position;
    if (in_broken_end(txn)) {
      position.epoch = stop_after / steps_per_epoch;
      position.step = stop_after % steps_per_epoch;
      position.kind = txn == place_of_end() ? Kind::kEpochEnd : Kind::kExport;
      position.global_step = stop_after;
      return position;
    }
    position.epoch = t / txns_per_epoch();
    const std::int64_t in_epoch = t % txns_per_epoch(), behind = in_epoch - txns_in_epoch();
    if (behind >= 0) {
      position.step = steps_per_epoch;
      position.kind = behind == 0 ? Kind::kEpochEnd : Kind::kExport;
    } else {
      // So many steps and an evaluation, again and again; or steps alone.
      const std::int64_t updates = evaluation_every * updates_per_step;
      const std::int64_t round = evaluation_every > 0 ? updates + 1 : txns_in_epoch();
      const std::int64_t in_round = in_epoch % round;
      position.step = in_epoch / round * evaluation_every + in_round / updates_per_step;
      if (evaluation_every > 0 && in_round == updates)
        position.kind = Kind::kEvaluation;
      else
        position.update = in_round % updates_per_step;
    }
    position.global_step = position.epoch * steps_per_epoch + position.step;
    return position;
  }
};

// Seeds of everything random inside a model (dropout): splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
// over seed, step, virtual worker and micro-batch, or over seed, step and batch for an evaluation
// after so many steps; docs/design/arithmetic.md.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr std::uint64_t part_seed(std::uint64_t seed, std::int64_t global_step,
                                  std::uint64_t part) {
  return splitmix64(splitmix64(splitmix64(seed) ^ static_cast<std::uint64_t>(global_step)) ^ part);
}
constexpr std::uint64_t share_seed(std::uint64_t seed, std::int64_t global_step, VirtualWorker v) {
  return part_seed(seed, global_step, static_cast<std::uint64_t>(v.value()));
}
// Of a share's batches the first has the share's own. The same in all updates of the step.
constexpr std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t global_step,
                                         VirtualWorker v, std::int64_t k) {
  const std::uint64_t share = share_seed(seed, global_step, v);
  return k == 0 ? share : splitmix64(share ^ static_cast<std::uint64_t>(k));
}
// Of what the loss draws in that batch: the first update has the batch's own.
constexpr std::uint64_t update_seed(std::uint64_t batch, std::int64_t update) {
  return update == 0 ? batch : splitmix64(batch ^ static_cast<std::uint64_t>(update) << 32);
}
// Of what the data set draws for that batch.
constexpr std::uint64_t data_seed(std::uint64_t seed, std::int64_t global_step, VirtualWorker v,
                                  std::int64_t k) {
  return splitmix64(micro_batch_seed(seed, global_step, v, k) ^ 0x64617461);  // "data"
}
constexpr std::uint64_t batch_seed(std::uint64_t seed, std::int64_t global_step,
                                   std::uint32_t batch) {
  return part_seed(seed, global_step, (std::uint64_t{1} << 32) + batch);
}
// Of what a loop of one's own draws between next() and run().
constexpr std::uint64_t loop_seed(std::uint64_t seed, std::int64_t global_step) {
  return part_seed(seed, global_step, std::uint64_t{1} << 33);
}
// Of what optimizers draw at the commit of a step's update.
constexpr std::uint64_t commit_seed(std::uint64_t seed, std::int64_t global_step,
                                    std::int64_t update) {
  return part_seed(seed, global_step,
                   (std::uint64_t{1} << 34) + static_cast<std::uint64_t>(update));
}

}  // namespace lockstep::training
