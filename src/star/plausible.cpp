#include "star/plausible.h"

#include <limits>
#include <optional>

namespace lockstep::star {
namespace {

constexpr int kMostSignal = 64, kMostCode = 255, kMostPort = 65'535;
constexpr std::uint64_t kMostNumber = std::numeric_limits<std::int32_t>::max();
// 31 years; sums with a clock fit.
constexpr std::uint64_t kMostTime = 1'000'000'000'000'000'000;
// Of L; the option's least one is 1 s.
constexpr std::uint64_t kLeastLimit = 100'000'000;
// A stamp is a bit beyond the clock where several words are written at once.
constexpr std::uint64_t kBeyond = 1'000'000'000;

class Doubts {
 public:
  template <class Number>
  void range(const char* what, Number value, std::uint64_t most) {
    bool fits = static_cast<std::uint64_t>(value) <= most;
    if constexpr (Number(-1) < Number(0)) fits = fits && value >= 0;
    if (!fits) doubt(what, std::to_string(value));
  }
  void rank(const char* what, int value) {
    if (value != -1) range(what, value, kMostNumber);
  }
  void text(const char* what, const std::string& value, std::size_t most = kMostTextBytes) {
    if (value.size() > most) doubt(what, std::to_string(value.size()) + " bytes");
  }
  void store(const std::optional<nodes::Store>& store) {
    if (!store) return;
    range("the store's attempt", store->attempt, kMostNumber);
    range("the store's port", store->port, kMostPort);
    text("the store's address", store->address);
  }
  void final(const std::optional<nodes::Final>& final, std::size_t most_text) {
    if (!final) return;
    range("the exit code", final->code, kMostCode);
    rank("the rank of the cause", final->node);
    text("the reason of the end", final->text, most_text);
  }
  void doubt(const char* what, const std::string& value) {
    if (first_.empty()) first_ = std::string(what) + " is " + value;
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

void cut(std::string& text) {
  if (text.size() > kMostWhyBytes) text.replace(kMostWhyBytes, std::string::npos, " …");
}

}  // namespace

std::string implausible(const message::Formed& formed, std::size_t hosts) {
  constexpr std::size_t kCookieBytes = 32;
  constexpr std::uint32_t kMostAgentPort = 2 * 65'536 - 1;  // Claim
  Doubts doubts;
  if (formed.hosts.size() != hosts)
    doubts.doubt("the number of nodes", std::to_string(formed.hosts.size()));
  if (formed.self < 0 || static_cast<std::size_t>(formed.self) >= formed.hosts.size())
    doubts.doubt("this node", "node " + std::to_string(formed.self));
  if (formed.run == 0) doubts.doubt("the run's id", "0");
  if (formed.limit_ns < kLeastLimit) doubts.doubt("L", std::to_string(formed.limit_ns));
  doubts.range("L", formed.limit_ns, kMostTime);
  for (const message::Formed::Host& host : formed.hosts) {
    doubts.range("a number of a port", host.agent_port, kMostAgentPort);
    if (host.workers == 0) doubts.doubt("the number of workers", "0");
    doubts.range("the number of workers", host.workers, kMostWorkersOfHost);
    if (host.cookie.size() != kCookieBytes)
      doubts.doubt("a cookie", "of " + std::to_string(host.cookie.size()) + " bytes");
    doubts.text("an address", host.address);
  }
  return doubts.first();
}

std::string implausible(const nodes::NodeWord& word, nodes::Incarnation leader, std::uint64_t now) {
  Doubts doubts;
  if (word.row.workers == 0) doubts.doubt("the number of workers", "0");
  doubts.range("the number of workers", word.row.workers, kMostWorkers);
  for (const auto* text :
       {&word.row.address, &word.row.machine, &word.row.role, &word.row.host, &word.led_from})
    doubts.text("a name", *text);
  for (const nodes::Attempt attempt : {word.told, word.ran, word.alive, word.ended})
    doubts.range("an attempt", attempt, kMostNumber);
  doubts.store(word.store);
  if (word.failure) {
    doubts.range("the failure's attempt", word.failure->attempt, kMostNumber);
    doubts.range("the failure's age", word.failure->age_ns, kMostTime);
    doubts.range("the failure's exit code", word.failure->code, kMostCode);
    doubts.rank("the failure's rank", word.failure->rank);
  }
  doubts.range("the signal", word.signal, kMostSignal);
  doubts.final(word.final, std::numeric_limits<std::size_t>::max());
  doubts.range("the time of sending", word.sent, kMostTime);
  doubts.range("the echo", word.echo, word.leader == leader ? now + kBeyond : kMostTime);
  return doubts.first();
}

std::string implausible(const nodes::LeaderWord& word, std::uint64_t now) {
  Doubts doubts;
  doubts.rank("the rank", word.rank);
  doubts.rank("the leader's rank", word.leader_rank);
  doubts.range("the attempt", word.attempt, kMostNumber);
  for (const std::uint32_t count : {word.base_rank, word.world, word.role_base, word.role_world})
    doubts.range("a number of workers", count, kMostNumber);
  doubts.store(word.store);
  doubts.range("the exit code", word.refusal_code, kMostCode);
  doubts.range("the signal", word.signal, kMostSignal);
  doubts.final(word.final, std::numeric_limits<std::size_t>::max());
  if (word.limit == 0) doubts.doubt("L", "0");
  doubts.range("L", word.limit, kMostTime);
  doubts.range("the time of sending", word.sent, kMostTime);
  doubts.range("the echo", word.echo, now + kBeyond);
  return doubts.first();
}

void shorten(nodes::NodeWord& word) {
  if (word.failure) cut(word.failure->text);
  if (word.final) cut(word.final->text);
  cut(word.signal_by);
  cut(word.stop_why);
}

}  // namespace lockstep::star
