// One call of a collective as its caller made it: compared among members, named in errors.
#pragma once

#include <cstdint>
#include <string>

#include "comm/exchange.h"
#include "comm/group.h"
#include "lockstep/status.h"

namespace lockstep::comm {

enum class Op : std::uint8_t { kAllReduce, kBroadcast, kAllGather, kBarrier };

struct Call {
  Op op = Op::kBarrier;
  DType dtype = DType::kFloat32;  // all_reduce
  int root = 0;                   // broadcast
  std::uint64_t bytes = 0;        // of each member
  ElementKind kind = 0;           // broadcast, all_gather
  friend bool operator==(const Call&, const Call&) = default;
};

std::string to_string(const Call& call);  // "all_reduce of 12 bytes of float32"
// kUsage: what both called, as collective number `number` (from 0) of a generation.
Error mismatch(std::uint64_t generation, std::uint64_t number, int rank, const Call& mine,
               int other, const Call& theirs);
// kUsage for arguments that no group can serve.
Status check_call(const Call& call, int world_size, std::uint64_t gathered_bytes);

}  // namespace lockstep::comm
