#include "launcher/commands/status_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/endpoint.h"
#include "base/json.h"
#include "base/text.h"

namespace lockstep::launcher {
namespace {

using nodes::Member;
using nodes::View;
using star::message::Answer;

std::string seconds_text(std::uint64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(ns) * 1e-9);
  return text.data();
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

const char* name_of(View::State state) {
  constexpr std::array kNames{"waiting", "forming", "running", "stopping", "ending"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string restarts_of(const View& view) {
  const std::uint64_t used = view.attempt == 0 ? 0 : view.attempt - 1;
  return (view.attempt == 0 ? "no attempt yet" : "attempt " + std::to_string(view.attempt)) +
         " (restarts used: " + std::to_string(used) + " of " + std::to_string(view.max_restarts) +
         ")";
}

std::string leader_of(const Answer& answer) {
  if (answer.view.leader_rank < 0) return "the launcher at " + answer.endpoint;
  return "node " + std::to_string(answer.view.leader_rank) + " (" + answer.endpoint + ")";
}

bool is_led(const View& view) { return view.members.empty() || view.members.front().connected; }

std::string waits_of(const View& view, const std::string& whom) {
  return "waits for " + whom + ", since " + seconds_text(view.waits_ns) +
         (view.fenced ? ", fenced" : "") + ", " + seconds_text(view.left_ns) +
         " left (--rdzv-conf join_timeout)";
}

std::string member_line(const Member& member, bool leads) {
  const std::string heard = leads           ? "leads"
                            : !member.known ? "never seen"
                                            : seconds_text(member.silent_ns);
  const std::string state = member.connected ? (member.works ? "" : "  no workers live")
                                             : (member.known ? "  not connected" : "");
  const std::string address = member.known ? member.address : "-",
                    host = member.known ? member.host : "-";
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), "%4d  %-15.64s  %-15.64s  %7u  %s%s\n", member.rank,
                address.c_str(), host.c_str(), member.workers, heard.c_str(), state.c_str());
  return line.data();
}

std::string leader_text(const Answer& answer) {
  const View& view = answer.view;
  const auto there = static_cast<std::uint64_t>(std::ranges::count_if(
                         view.members, [](const Member& each) { return each.connected; })) +
                     view.newcomers;
  std::string text = "run '" + answer.run_id + "': " + name_of(view.state) + ", " +
                     restarts_of(view) + ", " + std::to_string(there) + " of " +
                     counted(static_cast<std::uint64_t>(view.nodes), "node") +
                     (view.world == 0 ? "" : ", " + counted(view.world, "worker"));
  if (view.store)
    text += "; the store is at " + endpoint_text(view.store->address, view.store->port);
  text += "\n";
  if (view.state == View::State::kForming) text += waits_of(view, view.waits_for) + "\n";
  if (!view.why.empty())
    text += (view.state == View::State::kForming || view.state == View::State::kRunning
                 ? "the last attempt ended: "
                 : "it ends: ") +
            view.why + "\n";
  text += "node  address          host             workers  last word\n";
  for (const Member& member : view.members)
    text += member_line(member, member.rank == view.leader_rank);
  return text;
}

std::string node_text(const Answer& answer) {
  using State = View::State;
  const View& view = answer.view;
  const Member& self = view.members.front();
  std::string text = "run '" + answer.run_id + "', " +
                     (view.rank < 0 ? "a node" : "node " + std::to_string(view.rank)) + " of " +
                     std::to_string(view.nodes) + " on " + answer.host + ": ";
  if (!self.connected && view.state != State::kRunning)
    text += (view.state == State::kWaiting ? "" : std::string(name_of(view.state)) + ", ") +
            waits_of(view, leader_of(answer));
  else
    text +=
        std::string(name_of(view.state)) + ", " + restarts_of(view) + ", " +
        (view.world == 0 ? counted(self.workers, "worker")
                         : std::to_string(self.workers) + " of " + counted(view.world, "worker")) +
        "; " + leader_of(answer) + " leads, heard " + seconds_text(self.silent_ns) + " ago";
  if (!answer.trouble.empty()) text += ": " + answer.trouble;
  return text + "\n";
}

using Fields = nlohmann::ordered_json;

double as_seconds(std::uint64_t ns) {
  return std::round(static_cast<double>(ns) * 1e-6) / 1000;  // more is nobody's business
}

template <class Value>
Fields if_any(bool is, const Value& value) {
  return is ? Fields(value) : Fields();
}

Fields member_json(const Member& member) {
  Fields json{{"rank", member.rank}, {"seen", member.known}};
  if (!member.known) return json;
  json["connected"] = member.connected;
  json["address"] = member.address;
  json["host"] = member.host;
  json["workers"] = member.workers;
  json["workers_live"] = member.works;
  json["silent_s"] = as_seconds(member.silent_ns);
  return json;
}

}  // namespace

std::string status_text(const Answer& answer) {
  if (answer.view.leads) return leader_text(answer);
  return answer.view.members.empty() ? "" : node_text(answer);
}

std::string status_json(const Answer& answer) {
  const View& view = answer.view;
  // A node that has its leader is not told whom that one waits for.
  const bool waits = view.leads ? view.state == View::State::kForming : !is_led(view);
  Fields json;
  json["run_id"] = answer.run_id;
  json["state"] = name_of(view.state);
  json["leads"] = view.leads;
  json["node"] = if_any(view.rank >= 0, view.rank);
  json["host"] = answer.host;
  json["endpoint"] = answer.endpoint;
  json["leader"] = if_any(view.leader_rank >= 0, view.leader_rank);
  json["nodes"] = view.nodes;
  json["attempt"] = view.attempt;
  json["restarts"] = view.attempt == 0 ? 0 : view.attempt - 1;
  json["max_restarts"] = view.max_restarts;
  json["world_size"] = view.world;
  json["store"] = if_any(view.store.has_value(),
                         view.store ? endpoint_text(view.store->address, view.store->port) : "");
  json["waits_s"] = if_any(waits, as_seconds(view.waits_ns));
  json["left_s"] = if_any(waits, as_seconds(view.left_ns));
  json["waits_for"] = Fields::array();
  if (waits && view.leads)
    for (const Member& member : view.members)
      if (!member.connected) json["waits_for"].push_back(member.rank);
  if (waits && !view.leads && view.leader_rank >= 0) json["waits_for"].push_back(view.leader_rank);
  json["fenced"] = view.fenced;
  json["why"] = view.why;
  json["trouble"] = answer.trouble;
  json["members"] = Fields::array();
  for (const Member& member : view.members) json["members"].push_back(member_json(member));
  return json_text(json);
}

std::string stop_text(const std::vector<Answer>& answers) {
  const auto told = std::ranges::find_if(answers, [](const Answer& each) { return each.stops; });
  const Answer& answer = told == answers.end() ? answers.front() : *told;
  const View& view = answer.view;
  const std::string run = "run '" + answer.run_id + "'";
  if (told == answers.end())
    return run + " is " + name_of(view.state) + " already" +
           (view.why.empty() ? "" : ": " + view.why) + "\n";
  return run + " is told to stop, as by SIGTERM: it was " + name_of(view.state) + ", " +
         restarts_of(view) + ", " + counted(static_cast<std::uint64_t>(view.nodes), "node") +
         (view.world == 0 ? "" : ", " + counted(view.world, "worker")) +
         (view.leads ? "" : "; told node " + std::to_string(view.rank) + " on " + answer.host) +
         "\n";
}

}  // namespace lockstep::launcher
