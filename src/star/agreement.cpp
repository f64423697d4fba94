#include "star/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "lockstep/status.h"

namespace lockstep::star {
namespace {

using message::Hello;
using message::Reason;
using message::Refused;

std::string seconds(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(ns) * 1e-9);
  return text;
}

std::string words(const Hello& hello) {
  std::string text;
  for (const std::string& word : hello.program) {
    const bool is_plain = !word.empty() && word.find(' ') == std::string::npos;
    text += (text.empty() ? "" : " ") + (is_plain ? word : "'" + word + "'");
  }
  return text;
}

constexpr const char* kOneAddress =
    "Give the machines addresses that mean the same on all of them (containers: the host's "
    "network; machines with several networks: --local-addr)";

// JOB.STEP, as launchers in a step of Slurm name their runs.
bool is_step(const std::string& id) {
  const std::size_t dot = id.find('.');
  const auto is_digits = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  return dot != std::string::npos && is_digits(id.substr(0, dot)) && is_digits(id.substr(dot + 1));
}

bool are_steps(const std::string& a, const std::string& b) { return is_step(a) && is_step(b); }

// Each side names a link-local address with its own interface.
std::string bare(const std::string& address) { return address.substr(0, address.find('%')); }

// What is around `at`, in whole characters of UTF-8.
std::string excerpt(const std::string& text, std::size_t at) {
  constexpr std::size_t kBefore = 40, kBehind = 60;
  const auto boundary = [&](std::size_t from) {
    while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0u) == 0x80u) ++from;
    return from;
  };
  const std::size_t begin = at > kBefore ? boundary(at - kBefore) : 0;
  const std::size_t end = boundary(std::min(text.size(), at + kBehind));
  return (begin > 0 ? "…" : "") + text.substr(begin, end - begin) + (end < text.size() ? "…" : "");
}

}  // namespace

std::optional<Refused> disagreement(const Hello& theirs, const std::string& from,
                                    const Hello& ours) {
  const auto differ = [&](Reason reason, const std::string& option, const std::string& yours,
                          const std::string& mine, const std::string& remedy) {
    const std::string text = option + " differs: " + yours + " on " + theirs.host + " (" + from +
                             "), " + mine + " on " + ours.host + ", whose launcher leads; " +
                             remedy;
    return Refused{reason, option, text};
  };
  const std::string equal = "give the same on all nodes";
  const auto given = [](bool rank) { return rank ? "given" : "not given"; };
  if (theirs.run_id != ours.run_id)
    return differ(
        Reason::kOtherRun, "--rdzv-id", "'" + theirs.run_id + "'", "'" + ours.run_id + "'",
        are_steps(theirs.run_id, ours.run_id)
            ? "both are steps of Slurm, whose ports come from their numbers, here the "
              "same one: give one of them --nnodes and --rdzv-endpoint HOST:PORT"
            : "give the same on all nodes of one run, and each run an endpoint of its own");
  const auto endpoints = [](const Hello& hello) {
    return hello.endpoints.empty() ? "no list" : "'" + hello.endpoints + "'";
  };
  if (theirs.endpoints != ours.endpoints)
    return differ(Reason::kOtherOption, kEndpointsOption, endpoints(theirs), endpoints(ours),
                  "give the same list, spelled alike, on all nodes");
  if (theirs.version != ours.version)
    return differ(Reason::kOtherOption, "the version of Lockstep", theirs.version, ours.version,
                  "install the same one on all machines");
  const auto kind = [](bool linked) {
    return linked ? "it links Lockstep" : "it does not link Lockstep";
  };
  if (theirs.linked != ours.linked)
    return differ(Reason::kOtherOption, "the program", kind(theirs.linked), kind(ours.linked),
                  equal);
  if (theirs.nodes != ours.nodes)
    return differ(Reason::kOtherOption, "--nnodes", std::to_string(theirs.nodes),
                  std::to_string(ours.nodes), equal);
  if (theirs.max_restarts != ours.max_restarts)
    return differ(Reason::kOtherOption, "--max-restarts", std::to_string(theirs.max_restarts),
                  std::to_string(ours.max_restarts), equal);
  if (theirs.limit_ns != 0 && theirs.limit_ns != ours.limit_ns)
    return differ(Reason::kOtherOption, "--rdzv-conf keep_alive_interval x keep_alive_max_attempt",
                  seconds(theirs.limit_ns), seconds(ours.limit_ns), equal);
  const auto tie_break = [](const Hello& hello) {
    return hello.tie_break.empty() ? "not given" : "'" + hello.tie_break + "'";
  };
  if (theirs.tie_break.empty() != ours.tie_break.empty())  // paths may differ
    return differ(Reason::kOtherOption, "--tie-break", tie_break(theirs), tie_break(ours), equal);
  if (theirs.rank_given != ours.rank_given)
    return differ(Reason::kOtherOption, "--node-rank", given(theirs.rank_given),
                  given(ours.rank_given), "give one on each node, or on none");
  return std::nullopt;
}

int exit_code_of(Reason reason) {
  return exit_code(reason == Reason::kOtherOption ? ErrorKind::kUsage : ErrorKind::kUnavailable);
}

std::string other_program(const Hello& theirs, const Hello& ours) {
  if (theirs.program == ours.program) return "";
  const std::string their_words = words(theirs), our_words = words(ours);
  const auto first = std::ranges::mismatch(their_words, our_words).in1 - their_words.begin();
  const auto at = static_cast<std::size_t>(first);
  return "another program or other arguments on " + theirs.host + ": '" + excerpt(their_words, at) +
         "', on " + ours.host + ": '" + excerpt(our_words, at) + "'";
}

std::string translation(const std::string& host, const std::string& own, const std::string& seen) {
  if (own.empty() || bare(own) == bare(seen)) return "";
  return "an address translation (NAT) is between " + host + " and the leader: " + host +
         " has the address " + own + ", and the leader sees " + seen +
         ". Connections from it come through; those of the others to it may not, and its workers "
         "tell the others " +
         own + ". " + kOneAddress;
}

std::string forwarding(const std::string& dialled, const std::string& own) {
  if (dialled.empty() || own.empty() || bare(dialled) == bare(own)) return "";
  return "; the leader was reached at " + dialled + ", and its own address is " + own +
         ": a port is forwarded or mapped on the way (NAT). " + kOneAddress;
}

}  // namespace lockstep::star
