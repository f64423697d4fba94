#include "launcher/options/options.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/errors.h"
#include "base/random_hex.h"
#include "base/suggest.h"
#include "base/text.h"
#include "launcher/options/option_table.h"
#include "launcher/options/rendezvous.h"

namespace lockstep::launcher {
namespace {

// As torchrun's, of uuid.uuid4().
std::string random_id() {
  std::string id = random_hex(32);
  for (const std::size_t at : {20U, 16U, 12U, 8U}) id.insert(at, 1, '-');
  return id;
}

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

std::string environment_name(std::string_view name) {
  std::string result = "PET_";
  for (const char c : name)
    result += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

// As older Kubeflow operators spell it, and what torchrun reads since 2.12.
std::vector<std::string> environment_names(const std::string& option) {
  std::vector<std::string> names{environment_name(option)};
  if (option == "nproc-per-node") names.emplace_back("PET_N_PROC_PER_NODE");
  if (option == "shutdown-timeout") names.emplace_back("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  return names;
}

// As in torchrun: --standalone is a rendezvous of its own, whatever a cluster's operator says of
// the job's. Whoever writes it in the command line means one node, too. So does what a worker
// starts: a run of its own.
bool is_of_job(const std::string& option, bool standalone, bool by_hand) {
  return (standalone && (option == "node-rank" || option == "local-addr" || option == "tie-break" ||
                         option.starts_with("rdzv-") || option.starts_with("master-"))) ||
         (by_hand && option == "nnodes");
}

// What the command line does not say. What it says is not even looked at here: a job's PET_* must
// not be in the way of a run by hand in one of its containers.
Status apply_environment(Raw& raw, const std::vector<Option>& options,
                         const Environment& environment) {
  const bool by_hand = raw.options.standalone || is_in_worker(environment);
  const bool standalone = by_hand || environment("PET_STANDALONE") == "1";
  for (const Option& option : options) {
    if (raw.has(option.name) || is_of_job(option.name, standalone, by_hand)) continue;
    for (const std::string& name : environment_names(option.name)) {
      const std::optional<std::string> text = environment(name);
      if (!text || text->empty()) continue;
      if (option.value.empty() && *text != "0" && *text != "1")
        return misuse("environment variable " + name + " takes 0 or 1, not " + in_quotes(*text));
      if (auto status = option.set(raw, *text); !status.ok())
        return misuse("environment variable " + name + ": " + status.error().message);
      raw.given.emplace(option.name, name);
      break;
    }
  }
  return {};
}

// What torchrun's agent does for its workers where a variable asks for it, and this one cannot.
Status check_services(const Environment& environment) {
  if (environment("TORCHELASTIC_ENABLE_FILE_TIMER") != "1") return {};
  return misuse(
      "TORCHELASTIC_ENABLE_FILE_TIMER=1 asks the launcher to serve the watchdog timers of "
      "torch.distributed.elastic.timer, which 'lockstep run' does not: timer.expires() would fail "
      "in the workers. Unset it, and limit the time of a step in the program");
}

Error unknown_option(const std::string& name, const std::vector<Option>& options) {
  std::vector<std::string> known{"--help"};
  for (const Option& option : options)
    if (!option.help.empty()) known.push_back("--" + option.name);
  if (with_dashes(name) == "--use-env")
    return misuse("'" + name +
                  "' is not needed: workers find LOCAL_RANK in their environment "
                  "always; leave it out");
  const std::string near = suggestion(with_dashes(name), known);
  return misuse("unknown option " + in_quotes(name) +
                (near.empty() ? "; 'lockstep help run' lists them" : near) +
                " (options of the program come after its name)");
}

const Option* find_option(const std::vector<Option>& options, const std::string& word) {
  for (const Option& option : options) {
    if (word.starts_with("--") && with_dashes(word.substr(2)) == option.name) return &option;
    if (option.letter != 0 && word == std::string{'-', option.letter}) return &option;
  }
  return nullptr;
}

// Reads options up to the program's name; returns the index of that name.
Result<std::size_t> apply_arguments(Raw& raw, const std::vector<Option>& options,
                                    std::span<const std::string> arguments) {
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") return i + 1;
    if (word.size() < 2 || word[0] != '-') return i;
    if (word == "-h" || word == "--help") {
      raw.options.help = true;
      return i;
    }
    // --name=value, -t3, -t=3
    std::string name = word;
    std::optional<std::string> value;
    if (const std::size_t equal = word.find('=');
        word.starts_with("--") && equal != std::string::npos) {
      name = word.substr(0, equal);
      value = word.substr(equal + 1);
    } else if (!word.starts_with("--") && word.size() > 2) {
      name = word.substr(0, 2);
      value = word.substr(word[2] == '=' ? 3 : 2);
    }
    const Option* option = find_option(options, name);
    if (option == nullptr) return unknown_option(name, options);
    if (option->value.empty()) {
      if (value) return misuse(in_quotes(name) + " takes no value, but got " + in_quotes(*value));
      value = "1";
    } else if (!value) {
      if (++i == arguments.size())
        return misuse(in_quotes(name) + " needs a value: " + option->value);
      value = arguments[i];
    }
    LOCKSTEP_TRY(option->set(raw, *value));
    raw.given[option->name] = "--" + option->name;
    if (option->of_linked) raw.options.of_linked.push_back("--" + option->name);
    if (option->of_plain) raw.options.of_plain.push_back("--" + option->name);
  }
  return i;
}

Status combine(Raw& raw, const Environment& environment) {
  LaunchOptions& options = raw.options;
  LOCKSTEP_TRY(ask_slurm(raw, environment));
  if (raw.rdzv_id) options.run_id = *raw.rdzv_id;
  if (options.standalone) options.run_id = random_id();  // as in torchrun, over --rdzv-id
  if (options.run_id.empty() || options.run_id.find('/') != std::string::npos)
    return misuse("--rdzv-id " + in_quotes(options.run_id) +
                  " must not be empty or contain '/': logs are named after it");
  return combine_rendezvous(raw);
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* text = std::getenv(std::string(name).c_str());
    if (text == nullptr) return std::nullopt;
    return std::string(text);
  };
}

Result<LaunchOptions> parse_run_options(std::span<const std::string> arguments,
                                        const Environment& environment) {
  const std::vector<Option> options = all_options();
  Raw raw;
  LOCKSTEP_TRY(check_services(environment));
  LOCKSTEP_ASSIGN(const std::size_t first, apply_arguments(raw, options, arguments));
  if (raw.options.help) return std::move(raw.options);
  LOCKSTEP_TRY(apply_environment(raw, options, environment));
  if (const auto devices = environment("CUDA_VISIBLE_DEVICES"))
    raw.options.visible_devices = split(*devices, ',');
  raw.options.share_store = environment("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
  LOCKSTEP_TRY(combine(raw, environment));
  raw.options.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(first),
                             arguments.end());
  if (raw.options.program.empty())
    return misuse("no program given; usage: lockstep run [options] program [its arguments]");
  if (raw.options.module && raw.options.run_path)
    return misuse("-m starts a Python module, --run-path a script: give only one of them");
  if (raw.options.module && raw.options.no_python)
    return misuse("-m starts a Python module, --no-python starts none: give only one of them");
  return std::move(raw.options);
}

Status check_local_ranks(const LaunchOptions& options, std::uint32_t workers,
                         const std::string& why) {
  const auto check = [&](const char* option, int rank) -> Status {
    if (rank < static_cast<int>(workers)) return {};
    return misuse(std::string(option) + " names local rank " + std::to_string(rank) +
                  ", but none is above " + std::to_string(workers - 1) + " (" + why + ")");
  };
  for (const auto& [rank, streams] : options.redirects.by_rank)
    LOCKSTEP_TRY(check("--redirects", rank));
  for (const auto& [rank, streams] : options.tee.by_rank) LOCKSTEP_TRY(check("--tee", rank));
  for (const int rank : options.local_ranks_filter)
    LOCKSTEP_TRY(check("--local-ranks-filter", rank));
  return {};
}

std::string run_help() {
  std::string text =
      "usage: lockstep run [options] program [its arguments]\n\n"
      "Starts and supervises the workers of a training run. Takes torchrun's options; each may "
      "also be\n"
      "given as PET_<NAME> in the environment. Example:\n\n"
      "  lockstep run --standalone --nproc-per-node 3 ./convnet --epochs 1\n\n"
      "A script on two nodes, the same on each; HOST is one of them. In a step of Slurm 'lockstep "
      "run\n"
      "train.py' is enough.\n\n"
      "  lockstep run --nnodes 2 --rdzv-endpoint HOST:29400 --nproc-per-node 4 train.py\n\n";
  for (const Option& option : all_options()) {
    if (option.help.empty()) continue;
    std::string head =
        option.letter != 0 ? std::string("  -") + option.letter + ", --" : std::string("  --");
    head += option.name + (option.value.empty() ? "" : " " + option.value);
    head.resize(std::max<std::size_t>(head.size() + 2, 34), ' ');
    text += head + option.help + "\n";
  }
  return text;
}

}  // namespace lockstep::launcher
