// `lockstep status` and `lockstep stop`.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/endpoint.h"
#include "base/env.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/log.h"
#include "control/address.h"
#include "launcher/commands/ask.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/status_text.h"
#include "launcher/linked/run_directory.h"
#include "launcher/options/endpoints.h"
#include "launcher/options/nodes.h"
#include "launcher/reports/run_report.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kStatusUsage =
    "lockstep status RUN_DIR | HOST[:PORT],... | --id ID [--key-file FILE] [--json]";
constexpr const char* kStopUsage = "lockstep stop HOST[:PORT],... | --id ID [--key-file FILE]";

int fail_with(const Error& error) {
  log_error(error.message);
  return exit_code(error.kind);
}

struct Words {
  std::optional<std::string> where, id;
  std::string key_file;
  bool json = false;
};

// `--id ID` or `--id=ID`; moves `at` to the last word of it.
std::optional<std::string> value_of(const std::string& option, std::span<const std::string> words,
                                    std::size_t& at) {
  if (words[at].starts_with(option + "=")) return words[at].substr(option.size() + 1);
  if (words[at] != option || at + 1 == words.size()) return std::nullopt;
  return words[++at];
}

Result<Words> parse(std::span<const std::string> arguments, const std::string& usage,
                    bool may_be_json) {
  Words words;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (const auto id = value_of("--id", arguments, at); id && !words.id)
      words.id = *id;
    else if (const auto file = value_of("--key-file", arguments, at); file && !id)
      words.key_file = *file;
    else if (word == "--json" && may_be_json)
      words.json = true;
    else if (word.starts_with("-") || word.empty() || words.where)
      return misuse("unexpected '" + word + "'; usage: " + usage);
    else
      words.where = word;
  }
  if (words.where.has_value() == words.id.has_value()) return misuse("usage: " + usage);
  return words;
}

// What a word stands for: a folder that is there, or a path; else a machine.
bool is_run_dir(const std::string& word) {
  std::error_code error;
  return word.find('/') != std::string::npos || std::filesystem::is_directory(word, error);
}

// Says how else the word was not to be read, where it might have been meant.
Error with_other_reading(const std::string& word, Error error) {
  if (word.find(':') == std::string::npos && !control::Address::numeric(word, 0))
    error.message =
        "there is no folder '" + word + "' here, so it is HOST[:PORT]: " + error.message;
  return error;
}

Result<star::message::Answer> ask_where(const std::string& word, const Question& question) {
  // Of a list whoever leads answers.
  if (word.find(',') != std::string::npos) {
    const auto all = parse_endpoints(word);
    if (!all.ok()) return all.error();
    std::optional<Error> error;
    for (const Endpoint& one : *all) {
      auto answer = ask_endpoint(one.host, one.port.value_or(kEndpointPort), question);
      if (answer.ok()) return answer;
      error = error ? Error{error->kind, error->message + "; " + answer.error().message}
                    : answer.error();
    }
    return *error;
  }
  const auto endpoint = parse_endpoint(word);
  if (!endpoint.ok()) return with_other_reading(word, endpoint.error());
  auto answer = ask_endpoint(endpoint->host, endpoint->port.value_or(kEndpointPort), question);
  if (answer.ok()) return answer;
  Error error = answer.error();
  if (!endpoint->port && error.kind == ErrorKind::kUnavailable)
    error.message += " (without a port " + std::to_string(kEndpointPort) +
                     " is asked; --master-addr's default is " + std::to_string(kMasterPort) + ")";
  return with_other_reading(word, std::move(error));
}

Result<std::vector<star::message::Answer>> ask(const Words& words, Question::What what) {
  const Question question{what, words.key_file};
  if (words.id) return ask_this_machine(*words.id, question);
  LOCKSTEP_ASSIGN(auto answer, ask_where(*words.where, question));
  return std::vector{std::move(answer)};
}

// Without --rdzv-id all runs have the same one: nobody's is to be ended by the way.
Status check_one_run(const Words& words) {
  if (!words.id) return {};
  LOCKSTEP_ASSIGN(const auto answers,
                  ask_this_machine(*words.id, {Question::What::kStatus, words.key_file}));
  std::set<std::string> endpoints;
  for (const star::message::Answer& answer : answers) endpoints.insert(answer.endpoint);
  if (endpoints.size() < 2) return {};
  std::string list;
  for (const std::string& endpoint : endpoints) list += (list.empty() ? "" : ", ") + endpoint;
  return misuse(std::to_string(endpoints.size()) + " runs on this machine have the id '" +
                *words.id + "': those at " + list + "; stop one of them by 'lockstep stop " +
                *endpoints.begin() + "'");
}

// On the way up some are missing, on the way down some are left over.
std::string workers_of(const nlohmann::json& status) {
  const int now = status.value("world_size", 0), wanted = status.value("target_world_size", 0);
  if (now <= wanted) return std::to_string(now) + " of " + std::to_string(wanted) + " workers";
  return std::to_string(now) + " workers (" + std::to_string(now - wanted) + " about to leave)";
}

std::string readable(const std::string& answer) {
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  if (!json.is_object()) return answer + "\n";
  const auto field = [&](const char* key) { return json_text(json.value(key, nlohmann::json())); };
  std::string text = json.value("state", "") + ": " + workers_of(json) + ", " +
                     field("virtual_workers") + " virtual workers, " + field("committed") +
                     " transactions committed, " + "replacements left " +
                     field("replacements_left") + " of " + field("max_replacements") +
                     ", restarts " + field("restarts") + " of " + field("max_restarts") + "\n";
  if (json.contains("steps"))
    text += field("steps") + " steps" +
            (json.contains("epoch") ? ", in epoch " + field("epoch") + " (from 0)" : "") +
            "; last loss " + field("loss_mean") + "\n";
  if (json.contains("nodes"))
    text += "workers of node " + field("node") + ", of " + field("nodes") + " nodes:\n";
  text += "rank  worker      pid  transaction\n";
  for (const auto& member : json["members"]) {
    char line[96];
    const std::string rank = member["rank"].is_null() ? "-" : json_text(member["rank"]);
    std::snprintf(line, sizeof line, "%4s  %6s  %7s  %11s\n", rank.c_str(),
                  json_text(member["uid"]).c_str(), json_text(member["pid"]).c_str(),
                  json_text(member["txn"]).c_str());
    text += line;
  }
  return text;
}

int run_dir_status(const std::string& run_dir, bool json) {
  auto reply = ask_launcher(run_dir, coord::message::StatusQuery{});
  std::error_code error;
  if (!reply.ok() && std::filesystem::is_directory(run_dir, error) && !has_launcher(run_dir)) {
    const auto report = run_report(posix_env(), run_dir);
    if (!report.ok()) return fail_with(report.error());
    return print_output(json ? *report + "\n" : readable_report(*report));
  }
  if (!reply.ok()) return fail_with(reply.error());
  if (!reply->ok) return fail_with({reply->kind, reply->text});
  const std::string status = with_metrics(posix_env(), run_dir, reply->text);
  return print_output(json ? status + "\n" : readable(status));
}

}  // namespace

int status_command(std::span<const std::string> arguments) {
  const auto words = parse(arguments, kStatusUsage, true);
  if (!words.ok()) return fail_with(words.error());
  if (words->where && is_run_dir(*words->where)) {
    if (words->key_file.empty()) return run_dir_status(*words->where, words->json);
    return fail_with(misuse("'" + *words->where +
                            "' is a run's folder, and is read without a key; "
                            "leave --key-file out"));
  }
  const auto answers = ask(*words, Question::What::kStatus);
  if (!answers.ok()) return fail_with(answers.error());
  std::string text;
  for (const star::message::Answer& answer : *answers)
    text += words->json ? status_json(answer) + "\n" : status_text(answer);
  return print_output(text);
}

int stop_command(std::span<const std::string> arguments) {
  const auto words = parse(arguments, kStopUsage, false);
  if (!words.ok()) return fail_with(words.error());
  if (words->where && is_run_dir(*words->where))
    return fail_with(misuse("'" + *words->where +
                            "' is a run's folder: end such a run by a SIGTERM to its launcher "
                            "('lockstep status --json' has its launcher_pid)"));
  if (const Status one = check_one_run(*words); !one.ok()) return fail_with(one.error());
  const auto answers = ask(*words, Question::What::kStop);
  if (!answers.ok()) return fail_with(answers.error());
  return print_output(stop_text(*answers));
}

}  // namespace lockstep::launcher
