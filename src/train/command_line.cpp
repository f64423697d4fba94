#include "lockstep/command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/env.h"
#include "base/process_setup.h"
#include "base/suggest.h"
#include "base/text.h"
#include "lockstep/context.h"
#include "train/option_rules.h"

namespace lockstep {
namespace {

std::string first_of(const std::string& name) { return name.substr(0, name.find(',')); }

// `--batch-size` also as `--batch_size`.
std::string both_spellings(const std::string& name) {
  std::string other = first_of(name);
  for (std::size_t i = 2; i < other.size(); ++i)
    if (other[i] == '-') other[i] = '_';
  return other == first_of(name) ? name : name + "," + other;
}

}  // namespace

struct CommandLine::Impl {
  explicit Impl(const std::string& program, const std::string& purpose) : app(purpose, program) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as argparse
  }
  CLI::App app;
  std::vector<std::string> names;
  std::function<void(const std::string&)> told_of_unknown;
  bool help_wanted = false;
};

CommandLine::CommandLine(const std::string& program, const std::string& purpose)
    : impl_(std::make_unique<Impl>(program, purpose)) {
  impl_->names.emplace_back("--help");
}
CommandLine::~CommandLine() = default;

namespace {

template <class T>
std::string expected(const Limits<T>& limits) {
  const bool whole = std::is_integral_v<T>, any_least = limits.least == Limits<T>().least,
             any_most = limits.most == Limits<T>().most;
  const std::string kind = whole ? "a whole number" : "a finite number";
  if (whole || (!any_least && !any_most))
    return kind + " from " + shortest(limits.least) + " to " + shortest(limits.most);
  if (!any_least) return kind + ", " + shortest(limits.least) + " or more";
  return any_most ? kind : kind + ", at most " + shortest(limits.most);
}

// All of the text, in decimal; nothing is rounded to a limit, wrapped or cut off.
template <class T>
std::optional<T> number_within(std::string_view text, const Limits<T>& limits) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto number = number_of<T>(text);
  // A NaN is on neither side of a limit.
  if (!number || !(*number >= limits.least && *number <= limits.most)) return std::nullopt;
  return number;
}

template <class Impl, class T, class Target>
void add_number(Impl& impl, const std::string& name, Target& target, const std::string& shown,
                const std::string& help, Limits<T> limits) {
  const std::string first = first_of(name);
  impl.names.push_back(first);
  const auto set = [first, limits, &target](const std::string& text) {
    const std::optional<T> number = number_within(text, limits);
    if (!number)
      throw CLI::ValidationError(first + " is '" + text + "', expected " + expected(limits));
    target = *number;
  };
  impl.app.template add_option_function<std::string>(both_spellings(name), set, help)
      ->type_name(std::is_integral_v<T> ? "INT" : "FLOAT")
      ->default_str(shown);
}

std::string one_of(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i)
    text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  return text;
}

template <class Enum, std::size_t N>
void add_enum(CommandLine& line, const std::string& name,
              const std::array<std::string_view, N>& words, Enum& target, const std::string& help) {
  const auto set = [&words, &target](const std::string& value) {
    target = static_cast<Enum>(std::ranges::find(words, value) - words.begin());
  };
  line.add_choice(name, std::vector<std::string>(words.begin(), words.end()),
                  std::string(words[static_cast<std::size_t>(target)]), set, help);
}

// "--output=" and "--output", and then another option or nothing; empty: there is no such word.
std::string missing_value(const CLI::App& app, std::span<const char* const> words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i], name = word.substr(0, word.find('='));
    const CLI::Option* option = word.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr || option->get_expected_min() == 0) continue;  // no option; a flag
    const bool has_next = i + 1 < words.size() && !std::string_view(words[i + 1]).starts_with("--");
    if (name == word ? has_next : name.size() + 1 < word.size()) continue;
    const std::string type = option->get_type_name();
    return name + " has no value; write " + name + " " + type.substr(0, type.find(':')) +
           ", or leave the option out (--help says what it does)";
  }
  return "";
}

// "--epoch 3 x; did you mean '--epochs'?"
std::string listed(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  std::string text, near;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
    if (word.starts_with("--")) near += suggestion(word.substr(0, word.find('=')), names);
  }
  return text + near;
}

}  // namespace

void CommandLine::add(const std::string& name, std::string& target, const std::string& help) {
  impl_->names.push_back(name);
  impl_->app.add_option(both_spellings(name), target, help)->capture_default_str();
}
void CommandLine::add_path(const std::string& name, std::string& target, const std::string& help) {
  impl_->names.push_back(name);
  const auto set = [name, &target](const std::string& text) {
    if (text.empty())
      throw CLI::ValidationError(name + " is empty; give a path, or leave the option out");
    if (const Status local = check_local(text); !local.ok())
      throw CLI::ValidationError(name + " is " + local.error().message);
    target = text;
  };
  impl_->app.add_option_function<std::string>(both_spellings(name), set, help)->default_str(target);
}
void CommandLine::add(const std::string& name, double& target, const std::string& help,
                      Limits<double> limits) {
  add_number(*impl_, name, target, shortest(target), help, limits);
}
void CommandLine::add(const std::string& name, int& target, const std::string& help,
                      Limits<int> limits) {
  add_number(*impl_, name, target, shortest(target), help, limits);
}
void CommandLine::add(const std::string& name, std::int64_t& target, const std::string& help,
                      Limits<std::int64_t> limits) {
  add_number(*impl_, name, target, shortest(target), help, limits);
}
void CommandLine::add(const std::string& name, std::uint64_t& target, const std::string& help,
                      Limits<std::uint64_t> limits) {
  add_number(*impl_, name, target, shortest(target), help, limits);
}

void CommandLine::add(const std::string& name, std::optional<int>& target, const std::string& shown,
                      const std::string& help, Limits<int> limits) {
  add_number(*impl_, name, target, target ? shortest(*target) : shown, help, limits);
}
void CommandLine::add(const std::string& name, std::optional<std::int64_t>& target,
                      const std::string& shown, const std::string& help,
                      Limits<std::int64_t> limits) {
  add_number(*impl_, name, target, target ? shortest(*target) : shown, help, limits);
}

void CommandLine::add(const std::string& name, Duration& target, Duration::Unit bare,
                      const std::string& help) {
  impl_->names.push_back(name);
  const auto set = [name, bare, &target](const std::string& text) {
    const Result<Duration> duration = Duration::parse(text, bare);
    if (!duration.ok()) throw CLI::ValidationError(name + " is " + duration.error().message);
    target = *duration;
  };
  impl_->app.add_option_function<std::string>(both_spellings(name), set, help)
      ->type_name("DURATION")
      ->default_str(target.unit == bare ? std::to_string(target.count) : target.text());
}

void CommandLine::add_flag(const std::string& name, bool& target, const std::string& help) {
  impl_->names.push_back(name);
  impl_->app.add_flag(both_spellings(name), target, help)->default_str(target ? "true" : "false");
}

void CommandLine::add_choice(const std::string& name, std::vector<std::string> choices,
                             const std::string& shown, std::function<void(const std::string&)> set,
                             const std::string& help) {
  impl_->names.push_back(name);
  const std::string type = "TEXT:{" + CLI::detail::join(choices, ",") + "}";
  const auto set_known = [name, choices = std::move(choices),
                          set = std::move(set)](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end())
      throw CLI::ValidationError(name + " is '" + text + "', expected " + one_of(choices) +
                                 suggestion(text, choices));
    set(text);
  };
  impl_->app.add_option_function<std::string>(both_spellings(name), set_known, help)
      ->type_name(type)
      ->default_str(shown);
}

void CommandLine::on_parsed(std::function<void(const std::string& toml)> done) {
  impl_->app.parse_complete_callback([this, done = std::move(done)] {
    done(printable(impl_->app.config_to_str(/*default_also=*/true, /*write_description=*/false)));
  });
}

void CommandLine::on_unknown(std::function<void(const std::string& words)> told) {
  impl_->app.allow_extras();
  impl_->told_of_unknown = std::move(told);
}

bool CommandLine::knows(const std::string& name) const {
  return impl_->app.get_option_no_throw(name) != nullptr;
}

bool CommandLine::given(const std::string& name) const {
  const CLI::Option* option = impl_->app.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

Status CommandLine::try_parse(int argc, const char* const* argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  try {
    impl_->app.parse(argc, argv);
    const std::vector<std::string> unknown = impl_->app.remaining();
    if (unknown.empty()) return {};
    if (const std::string why = missing_value(impl_->app, words); !why.empty())
      return Error{ErrorKind::kUsage, why};
    impl_->told_of_unknown(listed(unknown, impl_->names));
    return {};
  } catch (const CLI::CallForHelp&) {
    impl_->help_wanted = true;
    return Error{ErrorKind::kUsage, impl_->app.help()};
  } catch (const CLI::ValidationError& error) {
    return Error{ErrorKind::kUsage, error.what()};
  } catch (const CLI::ParseError& error) {
    if (const std::string why = missing_value(impl_->app, words); !why.empty())
      return Error{ErrorKind::kUsage, why};
    for (int i = 1; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (word.rfind("--", 0) != 0 || impl_->app.get_option_no_throw(word) != nullptr) continue;
      const std::string near = suggestion(word, impl_->names);
      return Error{ErrorKind::kUsage,
                   "unknown option '" + word + "'" +
                       (near.empty() ? "; --help lists all (options of 'lockstep run' come before "
                                       "the program)"
                                     : near)};
    }
    return Error{ErrorKind::kUsage, error.what()};
  }
}

void CommandLine::parse(int argc, char** argv) {
  const Status status = try_parse(argc, argv);
  if (status.ok()) return;
  if (impl_->help_wanted) {
    const Status written = write_output(status.error().message);
    if (!written.ok()) exit_with(written.error());
    _exit(0);
  }
  exit_with(status.error());
}

namespace {

// What the program has added itself is its own business.
std::vector<std::string> options_to_add(const CommandLine& line) {
  std::vector<std::string> names;
  for (const std::string_view option : training::kRunOptions)
    if (const std::string name = "--" + std::string(option); !line.knows(name))
      names.push_back(name);
  return names;
}

}  // namespace

void add_run_options(CommandLine& line, RunOptions& o) {
  const std::vector<std::string> names = options_to_add(line);
  const auto add = [&](const auto& rule, const std::string& help) {
    if (!line.knows(rule.name)) line.add(rule.name, o.*rule.field, help, rule.limits);
  };
  add(training::kEpochs, "passes over the training set");
  add(training::kBatchSize, "samples per batch of each virtual worker");
  add(training::kAccumulationSteps, "batches of each virtual worker per optimizer step");
  line.add_flag("--drop-last", o.drop_last,
                "leave out an epoch's last batch if it is shorter than the others");
  line.add("--seed", o.seed, "of the model's initial values, the data order and dropout");
  add(training::kVirtualWorkers,
      "fixed shares of each step; 0: the number of workers at the first start");
  add(training::kMaxSteps, "optimizer steps of the whole run; 0: no limit");
  line.add("--max-duration", o.max_duration, Duration::Unit::kEpochs,
           "how long the whole run is, in place of --epochs: 10ep, 500ba (steps), 100000sp "
           "(samples) or 2h30m; 0: as --epochs says");
  line.add_path("--output", o.output, "the run directory");
  line.add_path(
      "--resume", o.resume,
      "auto: go on with an unfinished equal run there; never: start over; or a checkpoint's path, "
      "from which every start begins");
  line.add_flag("--new-virtual-workers", o.new_virtual_workers,
                "go on with another number of virtual workers, at an epoch's start");
  line.add(
      "--checkpoint-every", o.checkpoint_every, Duration::Unit::kSteps,
      "between checkpoints: optimizer steps or, with a unit, 1ep, 500ba, 100000sp, 10m; 0: only "
      "the last");
  line.add(training::kKeepCheckpoints.name, o.keep_checkpoints, "3",
           "newest checkpoints to keep; without this option a run that has finished keeps the last "
           "one alone (and the best)",
           training::kKeepCheckpoints.limits);
  line.add_choice(
      "--on-save-error", {"continue", "stop"}, o.continue_on_save_error ? "continue" : "stop",
      [&o](const std::string& value) { o.continue_on_save_error = value == "continue"; },
      "when a checkpoint cannot be written");
  add_enum(
      line, "--on-nan", training::kOnNan, o.on_nan,
      "when a loss or a gradient is infinite or NaN: make the update, leave it out, or end the "
      "run");
  add_enum(
      line, "--deterministic", training::kDeterministic, o.deterministic,
      "an operation that has no deterministic form is an error, or is used with a warning; off: "
      "fast ones, which may give other bits each time");
  line.add(
      "--evaluate-every", o.evaluate_every, Duration::Unit::kSteps,
      "between evaluations: 1ep, 2ep; optimizer steps or, with a unit, 500ba, 100000sp: besides "
      "each epoch's end; 0: never");
  line.add("--log-every", o.log_every, Duration::Unit::kSteps,
           "between printed lines: optimizer steps or, with a unit, 1ep, 500ba, 100000sp; 0: none");
  line.add_choice(
      "--shuffle", {"distributed", "reshuffle", "legacy", "sequential", "dataloader", "rows"},
      data::to_string(o.shuffle),
      [&o](const std::string& value) {
        if (auto shuffle = data::parse_shuffle(value); shuffle.ok()) o.shuffle = *shuffle;
      },
      "distributed: DistributedSampler, never reshuffled; reshuffle: with set_epoch; legacy, "
      "dataloader: DataLoader(shuffle=True) of 2019, of today (one virtual worker); rows: each "
      "virtual worker a stretch of its own, in order");
  line.add(training::kRehearse.name, o.rehearse, "1",
           "steps of this start whose shares are computed twice, to compare the bits; without this "
           "option a new run's first step alone, 0: none",
           training::kRehearse.limits);
  line.on_parsed([&line, &o, names](const std::string& toml) {
    o.config = toml;
    o.given.clear();
    std::ranges::copy_if(names, std::back_inserter(o.given),
                         [&](const std::string& name) { return line.given(name); });
  });
}

}  // namespace lockstep
