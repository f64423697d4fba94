#include "store/protocol.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lockstep::store {
namespace {

struct Form {
  const char* name;
  // What follows the byte of the query. k: a key, v: a value, each with its length; n, m: a number
  // of 8 and of 4 bytes; *: a count of 8 bytes, and so many times what comes after it.
  const char* fields;
};

constexpr std::array<Form, kQueries> kForms{{{"VALIDATE", "m"},
                                             {"SET", "kv"},
                                             {"COMPARE_SET", "kvv"},
                                             {"GET", "k"},
                                             {"ADD", "kn"},
                                             {"CHECK", "*k"},
                                             {"WAIT", "*k"},
                                             {"GETNUMKEYS", ""},
                                             {"DELETE_KEY", "k"},
                                             {"APPEND", "kv"},
                                             {"MULTI_GET", "*k"},
                                             {"MULTI_SET", "*kv"},
                                             {"CANCEL_WAIT", ""},
                                             {"PING", "m"},
                                             {"QUEUE_PUSH", "kv"},
                                             {"QUEUE_POP", "k"},
                                             {"QUEUE_LEN", "k"},
                                             {"LIST_KEYS", ""},
                                             {"BARRIER", "kn"}}};

const Form& form_of(Query query) { return kForms[static_cast<std::size_t>(query)]; }

Error bad(std::string what) { return {ErrorKind::kBadData, std::move(what)}; }

Error too_large(const char* what, std::uint64_t value, std::size_t limit) {
  return bad(std::string(what) + " of " + std::to_string(value) + ", above " +
             std::to_string(limit));
}

}  // namespace

const char* name_of(Query query) { return form_of(query).name; }

Result<std::optional<Request>> Parser::next(std::string_view& bytes) {
  for (;;) {
    if (begun_ && *field_ == '\0') {
      LOCKSTEP_ASSIGN(const bool given, end());
      if (given) return std::optional(std::exchange(request_, {}));
    }
    if (bytes.empty()) return std::optional<Request>();
    if (begun_) {
      LOCKSTEP_TRY(step(bytes));
    } else {
      LOCKSTEP_TRY(begin(static_cast<std::uint8_t>(bytes.front())));
      bytes.remove_prefix(1);
    }
  }
}

Status Parser::begin(std::uint8_t query) {
  if (query >= kQueries) return bad("no query has number " + std::to_string(query));
  request_.query = static_cast<Query>(query);
  if (validated_ == (request_.query == Query::kValidate))
    return bad(std::string(name_of(request_.query)) +
               (validated_ ? " in the middle" : " without VALIDATE before it"));
  begun_ = true;
  field_ = form_of(request_.query).fields;
  repeated_ = nullptr;
  return {};
}

Result<bool> Parser::end() {
  begun_ = false;
  held_ = 0;
  if (request_.query != Query::kValidate) return true;
  if (static_cast<std::uint64_t>(request_.number) != kMagic) return bad("VALIDATE of another kind");
  validated_ = true;
  request_ = {};
  return false;
}

Status Parser::step(std::string_view& bytes) {
  if (text_left_ > 0) {
    const std::size_t size = std::min<std::size_t>(text_left_, bytes.size());
    std::string& text = *field_ == 'k' ? request_.keys.back() : request_.values.back();
    text.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    held_ += size;
    text_left_ -= size;
    if (text_left_ == 0) next_field();
    return {};
  }
  const std::size_t wanted = *field_ == 'm' ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
  const std::size_t size = std::min(wanted - number_.size(), bytes.size());
  number_.append(bytes.substr(0, size));
  bytes.remove_prefix(size);
  if (number_.size() < wanted) return {};
  std::uint64_t number = 0;
  if (wanted == sizeof(std::uint32_t)) {
    std::uint32_t small = 0;
    std::memcpy(&small, number_.data(), sizeof small);
    number = small;
  } else {
    std::memcpy(&number, number_.data(), sizeof number);
  }
  number_.clear();
  return take_number(number);
}

Status Parser::take_number(std::uint64_t number) {
  if (*field_ == 'k' || *field_ == 'v') return begin_text(number);
  if (*field_ == '*') {
    if (number > kMaxKeys) return too_large("a count", number, kMaxKeys);
    rounds_ = number;
    repeated_ = field_ + 1;
    field_ = number == 0 ? "" : repeated_;
    return {};
  }
  request_.number = static_cast<std::int64_t>(number);
  next_field();
  return {};
}

// Nothing is set aside for bytes that have not come.
Status Parser::begin_text(std::uint64_t size) {
  const bool key = *field_ == 'k';
  const std::size_t most = key ? kMaxKey : kMaxValue;
  if (size > most) return too_large(key ? "a key" : "a value", size, most);
  held_ += kFieldCost;
  if (held_ + size > kMaxMessage) return too_large("a request", held_ + size, kMaxMessage);
  (key ? request_.keys : request_.values).emplace_back();
  text_left_ = size;
  if (size == 0) next_field();
  return {};
}

void Parser::next_field() {
  ++field_;
  if (*field_ == '\0' && repeated_ != nullptr && --rounds_ > 0) field_ = repeated_;
}

void put_byte(std::string& out, std::uint8_t byte) { out.push_back(static_cast<char>(byte)); }

void put_32(std::string& out, std::uint32_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_64(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& out, std::string_view text) {
  put_64(out, text.size());
  out.append(text);
}

std::string encode(const Request& request) {
  std::string out;
  put_byte(out, static_cast<std::uint8_t>(request.query));
  auto key = request.keys.begin();
  auto value = request.values.begin();
  const char* field = form_of(request.query).fields;
  const char* repeated = nullptr;
  for (; *field != '\0'; ++field) {
    if (*field == '*') {
      put_64(out, request.keys.size());
      repeated = field + 1;
      if (request.keys.empty()) break;
    } else if (*field == 'k') {
      put_text(out, *key++);
    } else if (*field == 'v') {
      put_text(out, *value++);
    } else if (*field == 'm') {
      put_32(out, static_cast<std::uint32_t>(request.number));
    } else {
      put_64(out, static_cast<std::uint64_t>(request.number));
    }
    if (field[1] == '\0' && repeated != nullptr && key != request.keys.end()) field = repeated - 1;
  }
  return out;
}

}  // namespace lockstep::store
