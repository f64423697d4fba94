#include "comm/call.h"

namespace lockstep::comm {
namespace {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "unknown";
}

}  // namespace

std::string to_string(const Call& call) {
  const std::string bytes = std::to_string(call.bytes) + " bytes";
  const std::string kind = call.kind == 0 ? "" : " of element type " + std::to_string(call.kind);
  switch (call.op) {
    case Op::kAllReduce:
      return "all_reduce of " + bytes + " of " + name_of(call.dtype);
    case Op::kBroadcast:
      return "broadcast of " + bytes + kind + " from rank " + std::to_string(call.root);
    case Op::kAllGather:
      return "all_gather of " + bytes + kind + " each";
    case Op::kBarrier:
      return "barrier";
  }
  return "unknown";
}

Error mismatch(std::uint64_t generation, std::uint64_t number, int rank, const Call& mine,
               int other, const Call& theirs) {
  return {ErrorKind::kUsage, "group of generation " + std::to_string(generation) +
                                 ": as collective number " + std::to_string(number) + " rank " +
                                 std::to_string(rank) + " called " + to_string(mine) + ", rank " +
                                 std::to_string(other) + " called " + to_string(theirs) +
                                 "; all members must make the same calls in the same order"};
}

Status check_call(const Call& call, int world_size, std::uint64_t gathered_bytes) {
  if (call.op == Op::kAllReduce && call.bytes % size_of(call.dtype) != 0)
    return Error{ErrorKind::kUsage, to_string(call) + ": not a whole number of elements"};
  if (call.op == Op::kBroadcast && (call.root < 0 || call.root >= world_size))
    return Error{ErrorKind::kUsage,
                 to_string(call) + ": ranks are 0 to " + std::to_string(world_size - 1)};
  if (call.op == Op::kAllGather &&
      gathered_bytes != call.bytes * static_cast<std::uint64_t>(world_size))
    return Error{ErrorKind::kUsage, to_string(call) + ": the result has room for " +
                                        std::to_string(gathered_bytes) + " bytes; it takes " +
                                        std::to_string(world_size) + " times as many"};
  return {};
}

}  // namespace lockstep::comm
