#include "launcher/options/rendezvous.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/env.h"
#include "base/errors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "control/address.h"
#include "launcher/options/endpoints.h"
#include "launcher/options/rdzv_conf.h"
#include "launcher/options/slurm.h"
#include "launcher/output/host_name.h"
#include "nodes/leader.h"

namespace lockstep::launcher {
namespace {

constexpr int kMostPort = 65'535;

// An unset variable: --node-rank "$RANK".
Status check_not_empty(const std::string& name, const std::string& text) {
  if (!text.empty()) return {};
  return misuse("--" + name + " is empty; give a value, or leave the option out");
}

// N, or torchrun's MIN:MAX.
Status set_nnodes(Raw& raw, const std::string& text) {
  LOCKSTEP_TRY(check_not_empty("nnodes", text));
  const std::size_t colon = text.find(':');
  LOCKSTEP_ASSIGN(const int least, to_int("nnodes", text.substr(0, colon), 1, kMostNodes));
  if (colon != std::string::npos) {
    LOCKSTEP_ASSIGN(const int most, to_int("nnodes", text.substr(colon + 1), 1, kMostNodes));
    if (least > most)
      return misuse("--nnodes " + text + " goes down; write --nnodes " + std::to_string(least));
    if (least < most)
      return misuse("--nnodes " + text +
                    ": the number of nodes does not change during a run here; write --nnodes " +
                    std::to_string(most) + ", and start all " + std::to_string(most));
  }
  raw.options.nodes.nnodes = least;
  return {};
}

Status set_endpoint(Raw& raw, const std::string& text) {
  LOCKSTEP_TRY(check_not_empty("rdzv-endpoint", text));
  auto endpoints = parse_endpoints(text);
  if (!endpoints.ok()) return misuse("--rdzv-endpoint: " + endpoints.error().message);
  raw.rdzv_endpoint = endpoints->front();
  raw.more_endpoints.assign(endpoints->begin() + 1, endpoints->end());
  return {};
}

// A host without a port.
Result<std::string> to_host(const std::string& name, const std::string& text,
                            const std::string& port_is) {
  LOCKSTEP_TRY(check_not_empty(name, text));
  auto endpoint = parse_endpoint(text);
  if (!endpoint.ok()) return misuse("--" + name + ": " + endpoint.error().message);
  if (endpoint->port)
    return misuse("--" + name + " takes a host, not " + in_quotes(text) + port_is);
  return std::move(endpoint->host);
}

Status set_master_addr(Raw& raw, const std::string& text) {
  LOCKSTEP_ASSIGN(raw.master_addr, to_host("master-addr", text, ": its port is --master-port"));
  return {};
}

Status set_local_addr(Raw& raw, const std::string& text) {
  LOCKSTEP_ASSIGN(raw.options.nodes.local_addr,
                  to_host("local-addr", text, ": the port is that of --rdzv-endpoint"));
  return {};
}

Status set_tie_break(Raw& raw, const std::string& text) {
  constexpr std::string_view kLockFile = "lockfile=";
  LOCKSTEP_TRY(check_not_empty("tie-break", text));
  if (!text.starts_with(kLockFile) || text.size() == kLockFile.size())
    return misuse("--tie-break takes lockfile=DIR, with a directory that all nodes share, not " +
                  in_quotes(text) +
                  "; without the option the first of two nodes goes on when they lose each other");
  auto path = absolute_path(text.substr(kLockFile.size()));
  if (!path.ok()) return misuse("--tie-break " + text + ": " + path.error().message);
  raw.options.nodes.lock_directory = *std::move(path);
  return {};
}

Status check_backend(const std::string& text) {
  const std::array<std::string, 2> known{"static", "c10d"};
  if (std::ranges::find(known, text) != known.end()) return {};
  return misuse("--rdzv-backend " + in_quotes(text) + " is not supported: use static or c10d" +
                suggestion(text, known));
}

// In the batch script all of Slurm's ranks are 0: `srun lockstep run --node-rank $SLURM_PROCID`.
// But any order of ranks may be meant: by a list of the job's own, node 0 is any node of the step.
// If it is not meant there are two of that rank, and the leader refuses the second one.
void doubt_rank_in_step(Raw& raw, const Environment& environment) {
  const auto node = environment("SLURM_NODEID"), task = environment("SLURM_PROCID");
  const bool is_first = !node || *node == "0" || task.value_or("") == "0";
  if (raw.options.nodes.node_rank != 0 || is_first) return;
  raw.options.notices.push_back(
      given_as(raw, "node-rank") + " 0 on the node that has SLURM_NODEID=" + *node +
      ": if $SLURM_PROCID or $SLURM_NODEID was expanded in the batch script, where it is 0 for "
      "all, leave the option out (a node's rank is then its SLURM_NODEID)");
}

// The usual form in a job's script: --nnodes and an endpoint, and no rank.
Status rank_from_slurm(Raw& raw, const Environment& environment) {
  NodesOptions& nodes = raw.options.nodes;
  if (nodes.nnodes == 1 || slurm_step_nodes(environment) != nodes.nnodes) return {};
  if (nodes.node_rank) {
    doubt_rank_in_step(raw, environment);
    return {};
  }
  LOCKSTEP_ASSIGN(const auto node, node_from_slurm(environment));
  if (node) nodes.node_rank = node->node_rank;
  return {};
}

void take_node(Raw& raw, const SlurmNode& node, const Environment& environment) {
  NodesOptions& nodes = raw.options.nodes;
  if (!raw.rdzv_id) raw.rdzv_id = node.run_id;
  nodes.nnodes = node.nnodes;
  raw.given["nnodes"] = "SLURM_STEP_NUM_NODES";
  if (node.nnodes == 1) return;
  doubt_rank_in_step(raw, environment);
  if (!nodes.node_rank) nodes.node_rank = node.node_rank;
  const bool has_port = raw.rdzv_backend == "static" && raw.has("master-port");
  raw.rdzv_endpoint =
      Endpoint{node.nodes.front(), has_port ? std::nullopt : std::optional(node.port)};
}

// On one node the store is what is at MASTER_PORT.
Status combine_ports(Raw& raw) {
  int& port = raw.options.master_port;
  if (raw.store_port == 0) return {};
  if (port != 0 && port != raw.store_port)
    return misuse("--store-port " + std::to_string(raw.store_port) + " and MASTER_PORT " +
                  std::to_string(port) +
                  " (--master-port or --rdzv-endpoint) differ; on one node they are the same: "
                  "leave one of them out");
  port = raw.store_port;
  return {};
}

// With static the endpoint is MASTER_ADDR, and said to be no address of this machine if it is none.
std::string endpoint_without_nodes(const Raw& raw) {
  if (raw.options.standalone || raw.has("nnodes") || !raw.rdzv_endpoint ||
      raw.rdzv_backend == "static" || !raw.options.notices.empty())
    return "";
  const std::string& host = raw.rdzv_endpoint->host;
  const auto address = control::Address::numeric(host, 0);
  const std::string own = host_name();
  const bool is_here = host.starts_with("localhost") || host == own ||
                       host.starts_with(own + ".") || (address && control::is_own(*address));
  if (is_here) return "";
  return given_as(raw, "rdzv-endpoint") + " " + host +
         " is given without --nnodes: this is a run on this node alone, which meets nobody there "
         "(--nnodes N makes one run of N nodes)";
}

Status combine_one_node(Raw& raw) {
  LaunchOptions& options = raw.options;
  if (given_as(raw, "tie-break") == "--tie-break" && raw.has("tie-break"))
    return misuse(
        "--tie-break says which of two nodes goes on when they lose each other, and "
        "this is a run of one; leave it out, or give --nnodes");
  if (!raw.more_endpoints.empty())
    return misuse(given_as(raw, "rdzv-endpoint") +
                  " is a list, where launchers of several nodes lead in turn, and this is a run of "
                  "one; give --nnodes N, or one endpoint");
  if (std::string notice = endpoint_without_nodes(raw); !notice.empty())
    options.notices.push_back(std::move(notice));
  if (raw.master_addr) options.master_addr = *raw.master_addr;
  options.master_port = raw.master_port;
  if (!options.standalone && raw.rdzv_backend == "static" && raw.rdzv_endpoint) {
    options.master_addr = raw.rdzv_endpoint->host;
    if (raw.rdzv_endpoint->port) options.master_port = *raw.rdzv_endpoint->port;
  }
  return combine_ports(raw);
}

// Who gives both means the endpoint: operators of clusters set PET_MASTER_ADDR for every job.
Status combine_endpoint(Raw& raw) {
  NodesOptions& nodes = raw.options.nodes;
  const bool is_static = raw.rdzv_backend == "static";
  const int master_port = raw.has("master-port") ? raw.master_port : kMasterPort;
  if (raw.rdzv_endpoint) {
    const bool has_master_port = is_static && raw.has("master-port");
    nodes.endpoint_host = raw.rdzv_endpoint->host;
    nodes.endpoint_port =
        raw.rdzv_endpoint->port.value_or(has_master_port ? master_port : kEndpointPort);
    nodes.is_static = is_static;
  } else if (raw.master_addr) {
    nodes.endpoint_host = *raw.master_addr;
    nodes.endpoint_port = master_port;
    nodes.is_static = true;
  }
  if (!raw.more_endpoints.empty()) return combine_places(raw);
  if (nodes.endpoint_host.empty() || nodes.endpoint_port != 0) return {};
  return misuse("port 0 of " + given_as(raw, raw.rdzv_endpoint ? "rdzv-endpoint" : "master-port") +
                " is any free one, which the other nodes could not know; give a port");
}

// The nodes tell each other these, in messages of a limited length.
Status check_length(const std::string& name, const std::string& text) {
  constexpr std::size_t kMost = 1024;
  if (text.size() <= kMost) return {};
  return misuse(name + " has " + std::to_string(text.size()) + " bytes; on several nodes " +
                std::to_string(kMost) + " at most");
}

Status combine_nodes(Raw& raw) {
  NodesOptions& nodes = raw.options.nodes;
  if (raw.options.standalone)
    return misuse(nodes.nnodes_from + ": a run with " + given_as(raw, "standalone") +
                  ", like one of lockstep::spawn() or of workers that are started by hand, is on "
                  "this node alone; leave one of them out");
  LOCKSTEP_TRY(combine_endpoint(raw));
  const std::string conf = given_as(raw, "rdzv-conf");
  LOCKSTEP_ASSIGN(const RdzvConf pairs, parse_rdzv_conf(conf, raw.rdzv_conf));
  LOCKSTEP_TRY(apply_rdzv_conf(conf, pairs, nodes));
  LOCKSTEP_TRY(check_length("--rdzv-id", raw.options.run_id));
  LOCKSTEP_TRY(check_length("--role", raw.options.role));
  LOCKSTEP_TRY(check_length("--rdzv-endpoint", text_of(nodes.places)));
  LOCKSTEP_TRY(check_length("--tie-break's directory", nodes.lock_directory));
  if (!nodes.places.empty() && nodes.is_host == true)
    return misuse(conf +
                  " is_host=true beside a list of endpoints does not say at which of them "
                  "this launcher leads; leave it out: by its machine's addresses it is seen");
  const std::chrono::nanoseconds usual(nodes::Rules().limit);
  const std::chrono::nanoseconds limit = nodes.limit ? *nodes.limit : usual;
  if (nodes.join_timeout < limit)
    raw.options.notices_of_plain.push_back(
        conf +
        ": join_timeout is below the silence after which a node is lost "
        "(keep_alive_interval x keep_alive_max_attempt): a launcher that does not reach the leader "
        "gives up only after that");
  // A store at the endpoint's port is the one that shares it.
  if (raw.store_port == 0) return {};
  nodes.is_static = raw.store_port == nodes.endpoint_port;
  nodes.store_port = nodes.is_static ? 0 : raw.store_port;
  return {};
}

// As a shell reads it.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

bool is_in_worker(const Environment& environment) {
  return environment("TORCHELASTIC_RUN_ID").has_value();
}

Status ask_slurm(Raw& raw, const Environment& environment) {
  if (raw.options.standalone || is_in_worker(environment)) return {};
  if (raw.has("nnodes")) return rank_from_slurm(raw, environment);
  std::string notice = slurm_without_a_step(environment);
  if (raw.has("rdzv-endpoint") || raw.has("master-addr")) {
    const int nodes = slurm_step_nodes(environment);
    if (nodes > 1)
      notice = "this step of Slurm has " + std::to_string(nodes) + " nodes, but " +
               given_as(raw, raw.rdzv_endpoint ? "rdzv-endpoint" : "master-addr") +
               " is given without --nnodes: this is a run on this node alone (--nnodes " +
               std::to_string(nodes) + ", or neither of them, makes one run on all)";
  } else {
    LOCKSTEP_ASSIGN(const auto node, node_from_slurm(environment));
    if (node) take_node(raw, *node, environment);
  }
  if (!notice.empty()) raw.options.notices.push_back(std::move(notice));
  return {};
}

Status combine_rendezvous(Raw& raw) {
  NodesOptions& nodes = raw.options.nodes;
  const std::string count = std::to_string(nodes.nnodes), from = given_as(raw, "nnodes");
  nodes.nnodes_from = from + (from.starts_with("--") ? " " : "=") + count;
  if (nodes.node_rank && *nodes.node_rank >= nodes.nnodes)
    return misuse(given_as(raw, "node-rank") + " " + std::to_string(*nodes.node_rank) +
                  " is not below " + nodes.nnodes_from + ": nodes have the ranks 0 to " +
                  std::to_string(nodes.nnodes - 1));
  return nodes.nnodes == 1 ? combine_one_node(raw) : combine_nodes(raw);
}

Status check_endpoint(const LaunchOptions& options, std::span<const std::string> arguments) {
  if (options.nodes.nnodes == 1 || !options.nodes.endpoint_host.empty()) return {};
  std::string command = "lockstep run --rdzv-endpoint HOST:" + std::to_string(kEndpointPort);
  const std::size_t own = arguments.size() - std::min(arguments.size(), options.program.size());
  for (const std::string& word : arguments.first(std::min(own + 1, arguments.size())))
    command += " " + shell_word(word);
  if (options.program.size() > 1) command += " …";
  return misuse(options.nodes.nnodes_from +
                ": the nodes are not told where they meet. Give each of them, with the first "
                "one's name or address as HOST: " +
                command);
}

std::vector<Option> rendezvous_options() {
  return {
      {"nnodes", "N", "nodes of the run (default 1); start the same command on each", set_nnodes},
      {"node-rank", "N",
       "rank of this node, from 0 (GROUP_RANK); by default the node of the endpoint is 0 and the "
       "others get theirs when they come",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_TRY(check_not_empty("node-rank", text));
         LOCKSTEP_ASSIGN(raw.options.nodes.node_rank, to_int("node-rank", text, 0, kMostNodes - 1));
         return {};
       }},
      {"rdzv-endpoint", "HOST[:PORT],...",
       "where the nodes meet: a node's name or address, which leads the run (default port 29400); "
       "with the static backend also MASTER_PORT. Of plain programs up to 8: when the leader's "
       "machine is gone the launcher at the next one leads",
       set_endpoint},
      {"master-addr", "HOST",
       "as --rdzv-endpoint, which goes before it; on one node MASTER_ADDR of plain programs "
       "(default 127.0.0.1)",
       set_master_addr},
      {"master-port", "PORT",
       "port of --master-addr (default 29500), and MASTER_PORT; on one node a free one by default",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN(raw.master_port, to_int("master-port", text, 0, kMostPort));
         return {};
       }},
      {"store-port", "PORT",
       "the port of the store that plain programs meet at, in every attempt (default: MASTER_PORT "
       "where that is given, else a free one for each attempt)",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_ASSIGN(raw.store_port, to_int("store-port", text, 0, kMostPort));
         return {};
       }},
      {"local-addr", "HOST",
       "address of this node for the others (default: the one on the route to the endpoint)",
       set_local_addr},
      {"key-file", "FILE",
       "the run's key, by which its nodes know each other ('lockstep key' makes one)",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_TRY(check_not_empty("key-file", text));
         raw.options.nodes.key_file = text;
         return {};
       }},
      {"tie-break", "lockfile=DIR",
       "of a program that links Lockstep: when the last two nodes lose each other, the one goes on "
       "that makes a file in DIR, a directory that all nodes share (default: the first of them)",
       set_tie_break},
      {"rdzv-backend", "static|c10d",
       "torchrun's: with static (the default) MASTER_PORT is the endpoint's port, with c10d "
       "another one",
       [](Raw& raw, const std::string& text) -> Status {
         raw.rdzv_backend = text;
         return check_backend(text);
       }},
      {"rdzv-id", "ID", "id of the run (default 'none'), the same on all nodes",
       [](Raw& raw, const std::string& text) -> Status {
         raw.rdzv_id = text;
         return {};
       }},
      {"rdzv-conf", "K=V,...",
       "of several nodes: join_timeout (seconds to wait for a node, default 600), "
       "keep_alive_interval and keep_alive_max_attempt (their product, in seconds, is the silence "
       "after which a node is lost: 15, of programs that link Lockstep 3), is_host",
       [](Raw& raw, const std::string& text) -> Status {
         LOCKSTEP_TRY(parse_rdzv_conf("--rdzv-conf", text));
         raw.rdzv_conf = text;
         return {};
       }},
  };
}

}  // namespace lockstep::launcher
