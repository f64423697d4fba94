// What a store holds and who waits for it: pure, a request in, answers out.
//
// Meaning: torch 2.11's LibUVStoreDaemon. Better than there: who waits for a queue and leaves, or
// gives up, passes what has woken it on to the next; empty queues take no memory. Memory: keys,
// values, queues and waits together have a limit, each key, value and awaited key with kEntryCost
// on top.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"
#include "store/protocol.h"

namespace lockstep::store {

using ClientId = std::uint64_t;

class Tables {
 public:
  using Answer = std::function<void(ClientId, std::string)>;
  static constexpr std::size_t kEntryCost = 128;

  // `limit`: bytes. `answer` is called from within handle() and drop(), with any client that has
  // asked and has not been dropped, and must not call back.
  Tables(std::size_t limit, Answer answer) : limit_(limit), answer_(std::move(answer)) {}

  // Errors, of which the protocol can tell the client nothing: it is to be dropped and its
  // connection closed. kBadData: it cannot be done (a sum with what is no number). kUnavailable: a
  // limit, which the message names. The tables are as before, but that pairs of kMultiSet may have
  // been set. A stranger may not bring what is held above half of the limit.
  Status handle(ClientId client, Request request, bool stranger = false);
  // It is gone: it waits for nothing any more.
  void drop(ClientId client);

  std::size_t held() const { return held_; }
  std::size_t keys() const { return values_.size(); }
  std::size_t waiting() const { return waits_.size(); }

 private:
  // Numbered in the order in which they came.
  using Keys = std::set<std::string, std::less<>>;
  struct Wait {
    std::uint64_t number = 0;
    Keys missing;
  };

  template <class Byte>
  void say(ClientId client, Byte byte) {
    answer_(client, {static_cast<char>(byte)});
  }
  void say_number(ClientId client, std::uint64_t number);
  Status room_for(std::size_t more) const;
  bool is_there(std::string_view key) const;
  std::string_view value_of(std::string_view key) const;
  Result<std::int64_t> plus(const std::string& key, std::int64_t more) const;

  Status put(const std::string& key, std::string value);
  Status set(const std::string& key, std::string value);  // and wakes who waits for it
  Status compare_set(ClientId client, Request& request);
  Status append(const std::string& key, const std::string& value);
  Status add(ClientId client, const Request& request);
  Status barrier(ClientId client, const Request& request);
  Status wait(ClientId client, std::vector<std::string>& keys);
  Status multi_get(ClientId client, const std::vector<std::string>& keys) const;
  Status list_keys(ClientId client) const;
  void remove(ClientId client, const std::string& key);
  Status push(const std::string& key, std::string value);
  void pop(ClientId client, const std::string& key);

  Status begin_wait(ClientId client, Keys missing);
  void end_wait(ClientId client);
  void arrived(const std::string& key);
  void offer(const std::string& queue);
  void pass_on(ClientId client, const Request* request);

  const std::size_t limit_;
  std::size_t limit_now_ = 0;  // of the request that is being handled
  const Answer answer_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
  std::map<ClientId, Wait> waits_;
  // By key: clients in the order of their waits' numbers.
  std::map<std::string, std::map<std::uint64_t, ClientId>, std::less<>> awaited_;
  // Who has been woken by a queue and has not asked for anything since.
  std::map<ClientId, std::string> offered_;
  std::uint64_t waits_begun_ = 0;
  std::size_t held_ = 0;
};

}  // namespace lockstep::store
