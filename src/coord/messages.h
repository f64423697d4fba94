// What agent, zygote, workers and `lockstep scale` say to each other: one message per
// SOCK_SEQPACKET datagram.
//
//   u32 magic and version | u16 type | u16 zero | u32 body length | body        little-endian
//
// Body: fields in the order of the struct; integers of fixed width, bool as one byte 0 or 1, text
// and lists with a u32 count in front, an optional as a bool and then the value. Nothing may follow
// the last field. Descriptors travel beside a message by SCM_RIGHTS and are no part of it:
// ForkRequest carries the worker's socket, the board and its outputs, Admit the run directory's
// lock. Of a program that is started by hand, Attach carries its pidfd, standard output and error;
// the ForkRequest that answers it the board and the lifeline, on which End comes.
//
// A datagram has to fit the socket's send buffer: set SO_SNDBUF to kMaxMessageBytes where the
// kernel allows it (net.core.wmem_max). Ownership: values. Errors: kBadData for what cannot be
// decoded, kUsage for what is too long to be encoded. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coord/board.h"
#include "coord/run_time.h"
#include "coord/version.h"
#include "lockstep/status.h"

namespace lockstep::coord {

// The last byte is the version of the format.
inline constexpr std::uint32_t kMessageMagic = 0x4c534d01;
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMessageHeaderBytes = 12;

namespace message {

// Zygote -> agent: serves fork requests from now on.
struct ZygoteReady {
  std::uint32_t version = kProtocolVersion;
  friend bool operator==(const ZygoteReady&, const ZygoteReady&) = default;
};

// Agent -> zygote. The identity is that of worker/session.h.
struct ForkRequest {
  std::uint64_t request = 0;
  WorkerUid uid;
  Slot slot;
  Rank rank;
  LocalRank local_rank;
  std::int32_t world_size = 1;
  std::int32_t restart_count = 0;
  std::int32_t max_restarts = 0;
  bool newcomer = false;
  std::string run_id;
  std::vector<std::pair<std::string, std::string>> environment;  // name, value
  friend bool operator==(const ForkRequest&, const ForkRequest&) = default;
};

// Agent -> zygote: fork another zygote, for the agent's socket beside the message.
struct ForkZygote {
  std::uint64_t request = 0;  // 0, which no ForkRequest has
  friend bool operator==(const ForkZygote&, const ForkZygote&) = default;
};

// Zygote -> agent. pid < 0: fork failed, and this is -errno.
struct Forked {
  std::uint64_t request = 0;
  std::int32_t pid = 0;
  friend bool operator==(const Forked&, const Forked&) = default;
};

// Worker -> agent, in this order of life.
struct Hello {
  std::int32_t pid = 0;
  WorkerUid uid;
  std::uint32_t version = kProtocolVersion;
  friend bool operator==(const Hello&, const Hello&) = default;
};
struct Describe {  // worker::Description
  std::string run_dir;
  std::string manifest;
  std::string parameters;
  BoardPlan board;
  std::uint32_t virtual_workers = 1;
  std::uint64_t total_txns = 0;
  std::uint64_t total_steps = 0;
  bool elastic = true;
  friend bool operator==(const Describe&, const Describe&) = default;
};
struct Ready {
  Txn next;
  std::uint64_t state_hash = 0;
  RunTime time = {};
  bool complete = false;  // nothing is left to run
  friend bool operator==(const Ready&, const Ready&) = default;
};
struct SyncRecords {
  Txn txn;
  friend bool operator==(const SyncRecords&, const SyncRecords&) = default;
};
struct CheckpointPublished {
  Txn txn;
  friend bool operator==(const CheckpointPublished&, const CheckpointPublished&) = default;
};
struct CheckpointFailed {
  Txn txn;
  std::string error;
  friend bool operator==(const CheckpointFailed&, const CheckpointFailed&) = default;
};
struct Fail {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  friend bool operator==(const Fail&, const Fail&) = default;
};
struct Leave {
  Txn applied;
  friend bool operator==(const Leave&, const Leave&) = default;
};
struct Finish {
  std::string console;
  std::string summary;
  friend bool operator==(const Finish&, const Finish&) = default;
};

// Agent -> worker: the answer to Describe, and to SyncRecords.
struct Admit {
  bool newcomer = false;
  bool checkpointed = false;  // this launch has published a checkpoint
  bool begun = false;         // or a table, so that what is recorded is its own
  friend bool operator==(const Admit&, const Admit&) = default;
};
struct Refuse {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  friend bool operator==(const Refuse&, const Refuse&) = default;
};
struct Synced {
  Txn txn;
  std::optional<std::string> error;  // of kind kDisk
  friend bool operator==(const Synced&, const Synced&) = default;
};

// A program that was started by hand -> agent, on a connection of its own: its first word. The
// answer: ForkRequest or Refuse. The same in all versions, so that they can refuse each other.
struct Attach {
  std::uint32_t version = kProtocolVersion;
  Rank rank;
  std::int32_t world_size = 1;
  friend bool operator==(const Attach&, const Attach&) = default;
};
// The last word of one that is about to end by itself, without an error.
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
// Agent -> such a worker: say `text`, unless it is empty, and end with `code`.
struct End {
  std::int32_t code = 0;
  std::string text;
  friend bool operator==(const End&, const End&) = default;
};

// Control socket in the run directory.
struct Scale {
  std::uint32_t workers = 0;
  friend bool operator==(const Scale&, const Scale&) = default;
};
struct StatusQuery {
  friend bool operator==(const StatusQuery&, const StatusQuery&) = default;
};
struct Reply {
  bool ok = false;
  std::string text;
  ErrorKind kind = ErrorKind::kUsage;  // where not ok; kUnavailable: another try makes sense
  friend bool operator==(const Reply&, const Reply&) = default;
};

}  // namespace message

// The position in this list, counted from 1, is the type's number on the wire: append only.
using Message =
    std::variant<message::ZygoteReady, message::ForkRequest, message::Forked, message::Hello,
                 message::Describe, message::Ready, message::SyncRecords,
                 message::CheckpointPublished, message::CheckpointFailed, message::Fail,
                 message::Leave, message::Finish, message::Admit, message::Refuse, message::Synced,
                 message::Scale, message::StatusQuery, message::Reply, message::ForkZygote,
                 message::Attach, message::Done, message::End>;

Result<std::string> encode(const Message& message);
Result<Message> decode(std::span<const std::byte> datagram);

// Names the first difference between what a worker describes and what the first one described;
// empty: none. Texts are compared line by line, so that the differing parameter or option is told.
std::string first_difference(const message::Describe& first, const message::Describe& other);
// The same of two nodes of a run, where each has its run directory, by bytes_of(). Empty: none that
// can be named.
struct NodeDescription {
  std::size_t node = 0;
  std::string bytes;
};
std::string difference_of_nodes(const NodeDescription& first, const NodeDescription& other);
// kMostDescription at most: where there are more, without the parameters. Empty: it is too long.
inline constexpr std::size_t kMostDescription = std::size_t{128} << 10;
std::string bytes_of(message::Describe description);
// Of all that it compares but the run directory, which each host has at a place of its own.
std::uint64_t digest_of(const message::Describe& description);

}  // namespace lockstep::coord
