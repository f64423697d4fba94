#include "store/tables.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace lockstep::store {
namespace {

std::size_t cost(std::string_view text) { return text.size() + Tables::kEntryCost; }

// It stands in the client's wait and among the keys that are awaited.
std::size_t cost_of_wait(std::string_view key) { return 2 * cost(key); }

Status fits(std::size_t size) {
  if (size <= kMaxMessage) return {};
  return Error{ErrorKind::kUnavailable, "an answer of " + std::to_string(size) +
                                            " bytes, above the limit of " +
                                            std::to_string(kMaxMessage)};
}

}  // namespace

Status Tables::handle(ClientId client, Request request, bool stranger) {
  limit_now_ = stranger ? limit_ / 2 : limit_;
  pass_on(client, &request);
  const auto& keys = request.keys;
  switch (request.query) {
    case Query::kValidate:
      break;
    case Query::kSet:
      return set(keys[0], std::move(request.values[0]));
    case Query::kCompareSet:
      return compare_set(client, request);
    case Query::kGet:
      return multi_get(client, keys);
    case Query::kAdd:
      return add(client, request);
    case Query::kCheck:
      say(client, std::ranges::all_of(keys, [this](auto& key) { return is_there(key); })
                      ? Checked::kReady
                      : Checked::kNotReady);
      break;
    case Query::kWait:
      return wait(client, request.keys);
    case Query::kCountKeys:
      say_number(client, values_.size());
      break;
    case Query::kDelete:
      remove(client, keys[0]);
      break;
    case Query::kAppend:
      return append(keys[0], request.values[0]);
    case Query::kMultiGet:
      return multi_get(client, keys);
    case Query::kMultiSet:
      for (std::size_t i = 0; i < keys.size(); ++i)
        LOCKSTEP_TRY(set(keys[i], std::move(request.values[i])));
      break;
    case Query::kCancelWait:
      end_wait(client);
      say(client, Waited::kCancelled);
      break;
    case Query::kPing: {
      std::string answer;
      put_32(answer, static_cast<std::uint32_t>(request.number));
      answer_(client, std::move(answer));
      break;
    }
    case Query::kQueuePush:
      return push(keys[0], std::move(request.values[0]));
    case Query::kQueuePop:
      pop(client, keys[0]);
      break;
    case Query::kQueueLength: {
      const auto queue = queues_.find(keys[0]);
      say_number(client, queue == queues_.end() ? 0 : queue->second.size());
      break;
    }
    case Query::kListKeys:
      return list_keys(client);
    case Query::kBarrier:
      return barrier(client, request);
  }
  return {};
}

void Tables::drop(ClientId client) {
  end_wait(client);
  pass_on(client, nullptr);
}

void Tables::say_number(ClientId client, std::uint64_t number) {
  std::string answer;
  put_64(answer, number);
  answer_(client, std::move(answer));
}

Status Tables::room_for(std::size_t more) const {
  if (held_ + more <= limit_now_) return {};
  return Error{ErrorKind::kUnavailable,
               "the store is full: " + std::to_string(held_) + " bytes in " +
                   std::to_string(values_.size()) + " keys and " + std::to_string(queues_.size()) +
                   " queues, and " + std::to_string(more) + " more would be above the limit of " +
                   std::to_string(limit_now_)};
}

bool Tables::is_there(std::string_view key) const {
  return values_.contains(key) || queues_.contains(key);
}

std::string_view Tables::value_of(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : found->second;
}

// As std::stoll() there: blanks before it and anything behind it do no harm.
Result<std::int64_t> Tables::plus(const std::string& key, std::int64_t more) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return more;
  const char* const text = found->second.c_str();
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text, &end, 10);
  if (end == text || errno == ERANGE)
    return Error{ErrorKind::kBadData, "a sum with a value that is no number"};
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(number) +
                                   static_cast<std::uint64_t>(more));
}

Status Tables::put(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    LOCKSTEP_TRY(room_for(cost(key) + cost(value)));
    held_ += cost(key) + cost(value);
    values_.emplace(key, std::move(value));
    return {};
  }
  const std::size_t before = found->second.size();
  if (value.size() > before) LOCKSTEP_TRY(room_for(value.size() - before));
  held_ = held_ - before + value.size();
  found->second = std::move(value);
  return {};
}

Status Tables::set(const std::string& key, std::string value) {
  LOCKSTEP_TRY(put(key, std::move(value)));
  arrived(key);
  return {};
}

Status Tables::compare_set(ClientId client, Request& request) {
  const std::string &key = request.keys[0], &expected = request.values[0];
  const auto found = values_.find(key);
  const bool missing = found == values_.end();
  LOCKSTEP_TRY(fits(value_of(key).size()));
  if (missing ? expected.empty() : found->second == expected)
    LOCKSTEP_TRY(set(key, std::move(request.values[1])));
  std::string answer;
  // Where the key is not there, the client is told what it has expected.
  put_text(answer, missing && !expected.empty() ? std::string_view(expected) : value_of(key));
  answer_(client, std::move(answer));
  return {};
}

Status Tables::append(const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  LOCKSTEP_TRY(room_for(value.size()));
  held_ += value.size();
  found->second += value;
  arrived(key);
  return {};
}

Status Tables::add(ClientId client, const Request& request) {
  LOCKSTEP_ASSIGN(const std::int64_t sum, plus(request.keys[0], request.number));
  LOCKSTEP_TRY(set(request.keys[0], std::to_string(sum)));
  say_number(client, static_cast<std::uint64_t>(sum));
  return {};
}

// The count stays: a key is for one barrier. One that is not full yet wakes nobody.
Status Tables::barrier(ClientId client, const Request& request) {
  const std::string& key = request.keys[0];
  LOCKSTEP_ASSIGN(const std::int64_t come, plus(key, 1));
  LOCKSTEP_TRY(put(key, std::to_string(come)));
  if (come < request.number) return begin_wait(client, {key});
  arrived(key);
  say(client, Waited::kStopWaiting);
  return {};
}

Status Tables::wait(ClientId client, std::vector<std::string>& keys) {
  std::set<std::string, std::less<>> missing;
  for (std::string& key : keys)
    if (!is_there(key)) missing.insert(std::move(key));
  if (!missing.empty()) return begin_wait(client, std::move(missing));
  say(client, Waited::kStopWaiting);
  return {};
}

Status Tables::multi_get(ClientId client, const std::vector<std::string>& keys) const {
  std::size_t size = 0;
  for (const std::string& key : keys) size += value_of(key).size() + sizeof(std::uint64_t);
  LOCKSTEP_TRY(fits(size));
  std::string answer;
  answer.reserve(size);
  for (const std::string& key : keys) put_text(answer, value_of(key));
  answer_(client, std::move(answer));
  return {};
}

Status Tables::list_keys(ClientId client) const {
  std::size_t size = sizeof(std::uint64_t);
  for (const auto& [key, value] : values_) size += key.size() + sizeof(std::uint64_t);
  LOCKSTEP_TRY(fits(size));
  std::string answer;
  answer.reserve(size);
  put_64(answer, values_.size());
  for (const auto& [key, value] : values_) put_text(answer, key);
  answer_(client, std::move(answer));
  return {};
}

void Tables::remove(ClientId client, const std::string& key) {
  const auto found = values_.find(key);
  const bool there = found != values_.end();
  if (there) {
    held_ -= cost(found->first) + cost(found->second);
    values_.erase(found);
  }
  say_number(client, there ? 1 : 0);
}

Status Tables::push(const std::string& key, std::string value) {
  const std::size_t name = queues_.contains(key) ? 0 : cost(key);
  LOCKSTEP_TRY(room_for(name + cost(value)));
  held_ += name + cost(value);
  queues_[key].push_back(std::move(value));
  offer(key);
  return {};
}

void Tables::pop(ClientId client, const std::string& key) {
  const auto queue = queues_.find(key);
  if (queue == queues_.end()) return say_number(client, 0);
  std::string answer;
  put_64(answer, queue->second.size());
  put_text(answer, queue->second.front());
  held_ -= cost(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) {
    held_ -= cost(key);
    queues_.erase(queue);
  }
  answer_(client, std::move(answer));
}

// A client has one wait; another one takes the first one's place.
Status Tables::begin_wait(ClientId client, Keys missing) {
  end_wait(client);
  std::size_t size = 0;
  for (const std::string& key : missing) size += cost_of_wait(key);
  LOCKSTEP_TRY(room_for(size));
  held_ += size;
  const std::uint64_t number = waits_begun_++;
  for (const std::string& key : missing) awaited_[key].emplace(number, client);
  waits_.emplace(client, Wait{number, std::move(missing)});
  return {};
}

void Tables::end_wait(ClientId client) {
  const auto wait = waits_.extract(client);
  if (wait.empty()) return;
  for (const std::string& key : wait.mapped().missing) {
    held_ -= cost_of_wait(key);
    const auto found = awaited_.find(key);
    found->second.erase(wait.mapped().number);
    if (found->second.empty()) awaited_.erase(found);
  }
}

void Tables::arrived(const std::string& key) {
  const auto clients = awaited_.extract(key);
  if (clients.empty()) return;
  for (const auto& [number, client] : clients.mapped()) {
    Keys& missing = waits_.at(client).missing;
    missing.erase(key);
    held_ -= cost_of_wait(key);
    // What is left may be queues that have filled in the meantime.
    if (!std::ranges::all_of(missing, [this](auto& other) { return is_there(other); })) continue;
    end_wait(client);
    say(client, Waited::kStopWaiting);
  }
}

// One value, one client: the first that waits for nothing else.
void Tables::offer(const std::string& queue) {
  const auto clients = awaited_.find(queue);
  if (clients == awaited_.end() || !queues_.contains(queue)) return;
  for (const auto& [number, client] : clients->second) {
    if (waits_.at(client).missing.size() > 1) continue;
    const ClientId woken = client;
    end_wait(woken);
    offered_.emplace(woken, queue);
    return say(woken, Waited::kStopWaiting);
  }
}

// A client that a queue has woken takes the value with its next request. If it does not, because it
// has given up at that moment or is gone, the next one is woken.
void Tables::pass_on(ClientId client, const Request* request) {
  const auto offered = offered_.extract(client);
  if (offered.empty()) return;
  const std::string& queue = offered.mapped();
  const bool takes =
      request != nullptr && request->query == Query::kQueuePop && request->keys[0] == queue;
  if (!takes) offer(queue);
}

}  // namespace lockstep::store
