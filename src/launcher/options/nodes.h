// How many nodes a run has, which one this is, and where their launchers meet.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

inline constexpr int kMostNodes = 65'536;
inline constexpr int kEndpointPort = 29'400;  // as torchrun's c10d has it
inline constexpr int kMasterPort = 29'500;    // as torchrun's static form has it

// Where an agent may lead.
struct MeetingPlace {
  std::string host;  // as the user gave it
  int port = 0;
  friend bool operator==(const MeetingPlace&, const MeetingPlace&) = default;
};

// Of several nodes. With one node only `nnodes` is looked at.
struct NodesOptions {
  int nnodes = 1;
  std::string nnodes_from;       // what has said so, for messages: "--nnodes 2"
  std::optional<int> node_rank;  // --node-rank; none: the leader gives one
  // Where the launchers meet, as the user gave it. Empty only where nnodes == 1, once
  // check_endpoint() was passed.
  std::string endpoint_host;
  int endpoint_port = 0;
  // A list of endpoints, the first among them; empty: there is one. Never with is_static.
  std::vector<MeetingPlace> places;
  // MASTER_PORT is the endpoint's port in every attempt: --master-addr, or backend static, which is
  // the default. Not where --store-port names another one.
  bool is_static = false;
  std::optional<bool>
      is_host;             // --rdzv-conf is_host: whether this node leads; none: see for itself
  std::string local_addr;  // --local-addr; empty: the address of the route
  std::string key_file;    // --key-file; empty: control::find_key() looks elsewhere
  // How long the nodes wait for one that is missing: --rdzv-conf join_timeout, or static's timeout.
  std::chrono::milliseconds join_timeout{600'000};
  // L, the silence after which a node is lost: keep_alive_interval * keep_alive_max_attempt, at
  // least 1 s. none: by the program's kind.
  std::optional<std::chrono::milliseconds> limit;
  int store_port = 0;  // --store-port; 0: the endpoint's (is_static), or a fresh one each attempt
  // --tie-break lockfile=DIR, from the root: of two nodes that have lost each other the one that
  // makes a file there goes on. Empty: the first of them.
  std::string lock_directory;
};

}  // namespace lockstep::launcher
