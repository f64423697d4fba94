// The wire format of PyTorch's TCPStore: what its clients ask, and the forms of the answers.
//
// Source: torch 2.11, torch/csrc/distributed/c10d/TCPStoreBackend.hpp (numbers) and
// TCPStoreLibUvBackend.cpp (fields, limits); kBarrier is of later versions. Numbers are the
// machine's, without padding. A connection begins with kValidate and kMagic, which have no answer.
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::store {

enum class Query : std::uint8_t {
  kValidate,     // 4 bytes: kMagic
  kSet,          // key, value
  kCompareSet,   // key, expected, desired -> value
  kGet,          // key -> value
  kAdd,          // key, 8 bytes: what to add -> 8 bytes: the sum
  kCheck,        // count, keys -> Checked
  kWait,         // count, keys -> Waited, once all are there
  kCountKeys,    // -> 8 bytes
  kDelete,       // key -> 8 bytes: 1, or 0 if there was none
  kAppend,       // key, value
  kMultiGet,     // count, keys -> values
  kMultiSet,     // count, pairs of key and value
  kCancelWait,   // -> Waited
  kPing,         // 4 bytes -> the same
  kQueuePush,    // key, value
  kQueuePop,     // key -> 8 bytes: how many there were; if there were any, the first
  kQueueLength,  // key -> 8 bytes
  kListKeys,     // -> 8 bytes: count; keys
  kBarrier,      // key, 8 bytes: members -> Waited, once as many have come
};
constexpr std::size_t kQueries = 19;

enum class Checked : std::uint8_t { kReady, kNotReady };
enum class Waited : std::uint8_t { kStopWaiting, kCancelled };

constexpr std::uint32_t kMagic = 0x3C85F7CE;

// PyTorch's own limits.
constexpr std::size_t kMaxKey = 8 << 10, kMaxValue = 8 << 20, kMaxKeys = 128 << 10;
// Ours: of one request or answer as a whole, each key and value with kFieldCost on top.
constexpr std::size_t kMaxMessage = 64 << 20, kFieldCost = 64;

struct Request {
  Query query = Query::kValidate;
  std::vector<std::string> keys;
  std::vector<std::string> values;  // kMultiSet: one for each key; kCompareSet: two
  std::int64_t number = 0;          // kAdd, kBarrier, kPing
};

const char* name_of(Query query);

// The bytes of one client, in pieces of any size.
class Parser {
 public:
  // Takes what it needs off the front of `bytes`, up to the end of one request. Nothing: all bytes
  // are taken, and more are needed. kBadData: no TCPStore client speaks like that; do not go on.
  Result<std::optional<Request>> next(std::string_view& bytes);
  // The first request was kValidate, with the right number. next() does not give it back.
  bool validated() const { return validated_; }
  // The bytes of a request that is not whole yet.
  std::size_t held() const { return held_; }

 private:
  Status begin(std::uint8_t query);
  Status step(std::string_view& bytes);  // one more field, or a part of it
  Status take_number(std::uint64_t number);
  Status begin_text(std::uint64_t size);
  void next_field();
  Result<bool> end();  // true: a request to give back

  bool validated_ = false, begun_ = false;
  const char* field_ = "";          // the one that comes next: see kFields in protocol.cpp
  const char* repeated_ = nullptr;  // the first field of a round
  std::uint64_t rounds_ = 0;        // that are left, this one included
  std::string number_;              // the bytes of one that is not whole yet
  std::uint64_t text_left_ = 0;     // bytes to come of the last key or value
  Request request_;
  std::size_t held_ = 0;
};

// Parts of answers, and of requests.
void put_byte(std::string& out, std::uint8_t byte);
void put_32(std::string& out, std::uint32_t number);
void put_64(std::string& out, std::uint64_t number);
void put_text(std::string& out, std::string_view text);  // its length, then itself

// As a client sends it; for tests and the fuzzers' seeds, too.
std::string encode(const Request& request);

}  // namespace lockstep::store
