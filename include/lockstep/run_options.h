// What every run may be told, by its program or (add_run_options() in lockstep/command_line.h) by
// its command line.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data.h"
#include "lockstep/duration.h"
#include "lockstep/status.h"

namespace lockstep {

class Context;

// What becomes of an update (most steps have one) in which the loss of a virtual worker is infinite
// or NaN or, where no GradScaler looks at them, the mean gradient of a parameter: the same in all
// workers. Told in a line, with its place: each, but of kContinue the first alone.
//   kContinue  it is made, as in PyTorch
//   kSkip      it changes nothing: no parameter, no buffer, no optimizer's or scaler's state, and
//              the epoch's means are without it; its step counts, with its other updates
//   kStop      the run ends with kBadData, before the update; the newest checkpoint stays, which is
//              of a step's start
enum class OnNan { kContinue, kSkip, kStop };

// PyTorch's use_deterministic_algorithms(), which a run sets for the process at its start (without
// filling what torch::empty() gives: deterministic_fill_uninitialized_memory is off). With several
// threads a worker the fast form of some operations, as of the gradient of x.index({i}) where i
// names a row twice, adds in another order each time.
//   kStrict  such operations have their slower form; one that has none is an error, which names it
//   kWarn    one that has none is used, and libtorch warns of it: each of its warnings is said once
//   kOff     all have their fast form
// With the last two equal weights are not promised, and the run says so. It may go on with another
// mode than it had.
enum class Deterministic { kStrict, kWarn, kOff };

// What every run has. The defaults are the library's; a recipe may set its own before it adds the
// options to its command line (convnet: name, output and shuffle).
struct RunOptions {
  std::string name = "run";             // of the recipe; part of the manifest
  std::string output = "lockstep-run";  // the run directory
  std::int64_t epochs = 10;
  std::int64_t max_steps = 0;  // of the whole run, if that comes before `epochs`
  // Seconds of the whole run, evaluation, recovery and all its starts included, each from what its
  // checkpoint has; 0: no limit. Reached, the run stops after the next step, the same in all
  // workers: RUN_DIR/stop.json says after which, before it does, and max_steps with that number
  // makes the same weights, unless the program's own schedule stands on Step::total_steps(). The
  // broken epoch is evaluated and exported (EpochEnd::broken). A longer limit, or none, goes on as
  // though it had never stopped.
  double max_seconds = 0;
  // How long the whole run is, in place of `epochs`: so many of them; or those that so many steps,
  // samples or seconds need. Of it, max_steps and max_seconds the shortest counts. none: `epochs`.
  // --epochs on the command line beside it is kUsage, as it would be without effect.
  Duration max_duration = {};
  std::int64_t batch_size = 100;  // of each virtual worker
  // Of all virtual workers together, in place of batch_size: V must divide it (kUsage). In the
  // manifest in its place too, so that a run that goes on with another V (new_virtual_workers)
  // keeps its steps. 0: none.
  std::int64_t global_batch_size = 0;
  // Gradient accumulation: batches of each virtual worker in an optimizer step, each one's loss
  // divided by their number before its backward. An epoch's last step may have fewer; the next
  // epoch begins with a step of its own.
  std::int64_t accumulation_steps = 1;
  // Updates of each step, all from the same batches: Step::run() is given so many. Of a Trainer 1.
  // Part of the manifest.
  std::int64_t updates_per_step = 1;
  std::uint64_t seed = 0;   // of data order and of dropout; models are seeded by torch::manual_seed
  int virtual_workers = 0;  // V; 0: the world size of the run's first start
  double clip_grad_norm = 0;        // clip_grad_norm_()'s max_norm, of each update; 0: none
  bool grad_norm = false;           // computed without clip_grad_norm, too: UpdateResult::grad_norm
  OnNan on_nan = OnNan::kContinue;  // --on-nan continue|skip|stop; skip is part of the manifest
  Deterministic deterministic = Deterministic::kStrict;  // --deterministic strict|warn|off
  data::Shuffle shuffle = data::Shuffle::kReshuffle;     // DistributedSampler with set_epoch()
  // DataLoader's word: an epoch's last batch is left out if it is shorter than batch_size.
  bool drop_last = false;
  // auto | never | path of a checkpoint, from which every launch with this option begins: to go on
  // after one that was killed, auto.
  std::string resume = "auto";
  bool new_virtual_workers = false;  // allow another V than the checkpoint's, at an epoch's start
  // Time is that of the worker that writes; of samples and epochs, the step that reaches them.
  // none: at the end only.
  Duration checkpoint_every = Duration::steps(100);
  // Newest ones that stay, the best one besides. nullopt: 3 while it trains and, once the run has
  // finished, the last one alone.
  std::optional<int> keep_checkpoints = std::nullopt;
  bool continue_on_save_error = true;  // --on-save-error continue|stop
  // Between evaluations. Of epochs, the ends of every so many of them (EpochEnd::count is 0 at the
  // others). Of steps or samples, each epoch's end and, in the epoch, after every so many of its
  // steps: for lines and records alone, nothing else follows from those. No time: it would not be
  // the same in each run. none: never. kUsage: more epochs than the run has; another than 1ep or
  // none where nothing evaluates. Part of the manifest.
  Duration evaluate_every = Duration::epochs(1);
  // Between printed lines. Steps count from each epoch's start, at most all of it; of samples and
  // epochs, the step that reaches them. No time: what is printed is the same in each run. none:
  // never.
  Duration log_every = Duration::steps(100);
  std::int64_t evaluation_batch_size = 0;  // samples of one call of the evaluation; 0: batch_size
  // The rehearsal: until so many steps of this start have had a share that takes part, each share
  // is computed twice, by two workers where there are two, and both must come to the same loss,
  // gradients, sums and rows, bit by bit: kUsage where they do not, as the loss then depends on
  // more than the state and its share, and weights would depend on who lives. The second
  // computation changes no weight, no buffer and no random number that is drawn later; what the
  // loss does besides (a counter, a line) is done once more. nullopt: 1 in a new run if
  // `deterministic` is kStrict, else 0. With kStrict one share is computed twice in steps 1, 2, 4,
  // 8, … besides. A given 0 also leaves that out, and that newcomers' shares and modules' modes are
  // compared, and a step that comes out otherwise as it is done again is a warning.
  std::optional<std::int64_t> rehearse = std::nullopt;
  int prefetch_threads = 0;  // of each worker's loader; 0: batches are made when they are needed
  // PyTorch's word. A parameter that a share's loss does not use gets no gradient in its backward.
  // false: that is an error, which names the parameter. true: it counts as zeros in the mean; for
  // models that use some of their layers in some batches only.
  bool find_unused_parameters = false;
  // Files that the program will write by itself (Trainer::exports(), on_finished()), as save_pt()
  // would: before the first step they are known to be writable (kUsage; see
  // check_can_write() in lockstep/checkpoint.h), and at the run's end one that is not there is
  // told.
  std::vector<std::string> files = {};
  // What else decides the arithmetic (a schedule, an augmentation): name and value, part of the
  // manifest, which has the optimizers' settings and the data sets' fingerprints by itself. A run
  // is resumed only under an equal manifest.
  std::map<std::string, std::string> identity = {};
  // The resolved command line as TOML, for the run directory's config.toml; add_run_options() fills
  // it in. Empty: no such file.
  std::string config = {};
  // Which of its options the command line had ("--epochs"); add_run_options() fills it in. One of
  // batches, epochs or evaluations that is without effect in the program is kUsage, with its
  // default value too.
  std::vector<std::string> given = {};
};

// A number for RunOptions::identity: the shortest text that reads back as the same one.
std::string identity_text(double value);

// What is known of a run before its Trainer is made, for settings that follow from it: a rate
// scaled by V, a seed that the first start chose.
struct RunSoFar {
  int virtual_workers = 1;  // V, as fit() will have it
  // Of the run in RunOptions::output that will be gone on with, RunOptions::identity included;
  // empty: a new one.
  std::map<std::string, std::string> manifest = {};
};
// The same in all workers, newcomers too. Errors: kUsage, kBadData for what is in that directory,
// as from fit().
Result<RunSoFar> run_so_far(Context& context, const RunOptions& options);

}  // namespace lockstep
