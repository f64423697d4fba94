#include "launcher/options/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "launcher/options/option_table.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;

constexpr int kMostSeconds = 30 * 86'400;
constexpr int kLeastLimit = 1, kMostLimit = 86'400;  // seconds
constexpr int kMostAttempts = 1'000'000;
// torchrun's defaults.
constexpr milliseconds kKeepAliveInterval{5'000};
constexpr int kKeepAliveAttempts = 3;

// What is said of one key.
class Reader {
 public:
  Reader(const std::string& name, const RdzvConf& conf) : name_(name), conf_(conf) {}

  bool has(const std::string& key) const { return conf_.contains(key); }
  std::string pair(const std::string& key) const { return key + "=" + conf_.at(key); }
  Error wrong(const std::string& key, const std::string& takes) const {
    return misuse(name_ + " " + pair(key) + ": " + key + " takes " + takes);
  }
  Result<milliseconds> seconds(const std::string& key) const {
    const auto value = number_of<double>(conf_.at(key));
    if (!value || !(*value > 0) || *value > kMostSeconds)
      return wrong(key, "seconds above 0, at most " + std::to_string(kMostSeconds));
    return milliseconds(static_cast<std::int64_t>(std::ceil(*value * 1000)));
  }
  Result<int> attempts(const std::string& key) const {
    const auto value = number_of<int>(conf_.at(key));
    if (!value || *value < 1 || *value > kMostAttempts)
      return wrong(key, "a whole number from 1 to " + std::to_string(kMostAttempts));
    return *value;
  }
  // The words that torchrun takes.
  Result<bool> truth(const std::string& key) const {
    std::string word = conf_.at(key);
    std::ranges::transform(word, word.begin(), [](unsigned char c) {
      return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    });
    for (const char* yes : {"1", "true", "t", "yes", "y"})
      if (word == yes) return true;
    for (const char* no : {"0", "false", "f", "no", "n"})
      if (word == no) return false;
    return wrong(key, "true or false");
  }

 private:
  const std::string& name_;
  const RdzvConf& conf_;
};

std::string seconds_text(milliseconds time) {
  const std::string whole = std::to_string(time.count() / 1000);
  const auto rest = time.count() % 1000;
  return (rest == 0 ? whole
                    : whole + with_decimals(static_cast<double>(rest) / 1000, 3).substr(1)) +
         " s";
}

Status check_keys(const std::string& name, const RdzvConf& conf) {
  const std::array<std::string, 10> known{
      "join_timeout",      "timeout",     "keep_alive_interval", "keep_alive_max_attempt",
      "is_host",           "store_type",  "last_call_timeout",   "close_timeout",
      "heartbeat_timeout", "read_timeout"};
  for (const auto& [key, value] : conf) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string near = suggestion(key, known);
    return misuse(name + ": unknown key '" + key + "'" +
                  (key == "rank"  ? "; a node's rank is given by --node-rank"
                   : near.empty() ? "; known are join_timeout, keep_alive_interval, "
                                    "keep_alive_max_attempt and is_host"
                                  : near));
  }
  return {};
}

Status apply_limit(const std::string& name, const Reader& read, NodesOptions& nodes) {
  const char* const interval_key = "keep_alive_interval";
  const char* const attempts_key = "keep_alive_max_attempt";
  if (!read.has(interval_key) && !read.has(attempts_key)) return {};
  milliseconds interval = kKeepAliveInterval;
  int attempts = kKeepAliveAttempts;
  if (read.has(interval_key)) {
    LOCKSTEP_ASSIGN(interval, read.seconds(interval_key));
  }
  if (read.has(attempts_key)) {
    LOCKSTEP_ASSIGN(attempts, read.attempts(attempts_key));
  }
  const milliseconds limit = interval * attempts;
  if (limit < std::chrono::seconds(kLeastLimit) || limit > std::chrono::seconds(kMostLimit))
    return misuse(name + ": " + interval_key + " " + seconds_text(interval) + " * " + attempts_key +
                  " " + std::to_string(attempts) + " is " + seconds_text(limit) +
                  "; a node that is silent for so long counts as lost: from " +
                  std::to_string(kLeastLimit) + " s to " + std::to_string(kMostLimit) + " s");
  nodes.limit = limit;
  return {};
}

}  // namespace

Result<RdzvConf> parse_rdzv_conf(const std::string& name, const std::string& text) {
  RdzvConf conf;
  if (trimmed(text).empty()) return conf;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equal = part.find('=');
    const std::string key(trimmed(std::string_view(part).substr(0, equal)));
    const std::string value(
        equal == std::string::npos ? "" : trimmed(std::string_view(part).substr(equal + 1)));
    if (key.empty() || value.empty())
      return misuse(name + " takes pairs like key=value, not '" + part + "'");
    conf[key] = value;
  }
  return conf;
}

Status apply_rdzv_conf(const std::string& name, const RdzvConf& conf, NodesOptions& nodes) {
  const Reader read(name, conf);
  LOCKSTEP_TRY(check_keys(name, conf));
  for (const char* key : {"timeout", "join_timeout"})  // the last one holds
    if (read.has(key)) {
      LOCKSTEP_ASSIGN(nodes.join_timeout, read.seconds(key));
    }
  for (const char* key :
       {"last_call_timeout", "close_timeout", "heartbeat_timeout", "read_timeout"})
    if (read.has(key)) LOCKSTEP_TRY(read.seconds(key));
  if (read.has("store_type") && conf.at("store_type") != "tcp")
    return read.wrong("store_type", "tcp: the launchers meet over the network, not in a file");
  if (read.has("is_host")) {
    LOCKSTEP_ASSIGN(nodes.is_host, read.truth("is_host"));
  }
  return apply_limit(name, read, nodes);
}

}  // namespace lockstep::launcher
