// What a host that comes back lacks of the run's records (ledger.jsonl, metrics.jsonl), asked for
// through the leader: whoever has them answers. The files are the same on all hosts, byte by byte,
// so a question may be asked again, and of another one.
//
// Threads: values. Errors: kBadData for bytes that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::link {

enum class RecordsOf : std::uint8_t { kLedger, kMetrics };

// The file's bytes from its first line of `from`, or a later one, on; but for the first `skip`.
struct WantRecords {
  coord::Stay who;
  RecordsOf file = RecordsOf::kLedger;
  Txn from;
  std::uint64_t skip = 0;
  bool near = false;  // it has been at the end of both: what is left is soon copied
  friend bool operator==(const WantRecords&, const WantRecords&) = default;
};

struct RecordsPiece {
  WantRecords of;
  Txn upto;  // with these bytes the file has all below it; 0: more is to come
  std::string bytes;
};

inline constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 18;

using RecordMessage = std::variant<WantRecords, RecordsPiece>;
std::string encode(const RecordMessage& message);
Result<RecordMessage> decode_records(std::string_view bytes);

}  // namespace lockstep::link
