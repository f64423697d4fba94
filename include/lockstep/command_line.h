// Command-line options for programs, as recipes use them: CLI11 behind a few calls, with the
// nearest name for an unknown option.
//
//   lockstep::CommandLine line("convnet", "MNIST with a small convolutional net");
//   line.add("--lr", options.lr, "learning rate");
//   lockstep::add_run_options(line, options.run);
//   line.parse(argc, argv);   // --help ends with 0; a wrong one prints why and ends with 2
//
// Both spellings, --batch-size and --batch_size, are one option. Threads: one. Ownership: targets
// outlive the object.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/run_options.h"
#include "lockstep/status.h"

namespace lockstep {

// What a number may be; nothing that is not finite is taken.
template <class T>
struct Limits {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& purpose);
  ~CommandLine();

  // The target's value is the default.
  void add(const std::string& name, std::string& target, const std::string& help);
  // A file or folder of this machine: an address (s3://...) is refused.
  void add_path(const std::string& name, std::string& target, const std::string& help);
  // A number's name may be two: "--epochs,total_epochs" is given as --epochs 3, or as 3 alone, in
  // the order in which such names are added.
  void add(const std::string& name, double& target, const std::string& help,
           Limits<double> limits = {});
  void add(const std::string& name, int& target, const std::string& help, Limits<int> limits = {});
  void add(const std::string& name, std::int64_t& target, const std::string& help,
           Limits<std::int64_t> limits = {});
  void add(const std::string& name, std::uint64_t& target, const std::string& help,
           Limits<std::uint64_t> limits = {});
  // One that may be left out; `shown`: what that comes to.
  void add(const std::string& name, std::optional<int>& target, const std::string& shown,
           const std::string& help, Limits<int> limits = {});
  void add(const std::string& name, std::optional<std::int64_t>& target, const std::string& shown,
           const std::string& help, Limits<std::int64_t> limits = {});
  // A bare number is of unit `bare`.
  void add(const std::string& name, Duration& target, Duration::Unit bare, const std::string& help);
  void add_flag(const std::string& name, bool& target, const std::string& help);
  // One of `choices`, given to `set`; `shown`: the default as the user would write it.
  void add_choice(const std::string& name, std::vector<std::string> choices,
                  const std::string& shown, std::function<void(const std::string&)> set,
                  const std::string& help);

  // `done` gets the resolved options as TOML when the command line has been read.
  void on_parsed(std::function<void(const std::string& toml)> done);

  // As argparse's parse_known_args(): words that are nobody's are no error; `told` gets them, with
  // the nearest options' names, when the command line has been read.
  void on_unknown(std::function<void(const std::string& words)> told);
  bool knows(const std::string& name) const;  // it has been added
  // Whether the command line that was read had this option.
  bool given(const std::string& name) const;

  // For tests: kUsage with the message instead of ending the process; --help is kUsage with the
  // help text.
  Status try_parse(int argc, const char* const* argv);
  // Only main calls this: it ends the process for --help and for errors.
  void parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// --epochs, --batch-size, --accumulation-steps, --drop-last, --seed, --virtual-workers,
// --max-steps, --max-duration, --output, --resume, --new-virtual-workers, --checkpoint-every,
// --keep-checkpoints, --on-nan, --on-save-error, --log-every, --evaluate-every, --shuffle,
// --deterministic, --rehearse. The other fields of RunOptions are the program's to set. A whole
// number among them that the program has added itself is left as it is.
//
// Options of the program's own are not part of the run's manifest: put into RunOptions::identity
// those that decide its arithmetic. A run that goes on with others than it had warns of it.
void add_run_options(CommandLine& line, RunOptions& options);

}  // namespace lockstep
