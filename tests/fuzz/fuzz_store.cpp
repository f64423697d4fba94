// Any bytes from several clients of a store, in pieces, with clients that go: each is refused or
// answered, what is read is read the same once more, and the account of memory comes out.
//
// The input is pieces: a byte that says who (its low two bits; bit 2: a newcomer in that place) and
// the piece's length minus one in its high five bits, then the piece.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/tables.h"

using namespace lockstep::store;

namespace {

constexpr std::size_t kLimit = 8 << 10, kClients = 4;

void check(bool right) {
  if (!right) std::abort();
}

// What was read, written again and read whole.
void check_again(const Request& request) {
  Parser parser;
  const std::string bytes = encode({Query::kValidate, {}, {}, kMagic}) + encode(request);
  std::string_view rest = bytes;
  auto again = parser.next(rest);
  check(again.ok() && again->has_value() && rest.empty());
  check((*again)->query == request.query && (*again)->keys == request.keys &&
        (*again)->values == request.values && (*again)->number == request.number);
}

struct Client {
  Parser parser;
  bool refused = false;
};

void feed(Tables& tables, ClientId id, Client& client, std::string_view piece) {
  while (!client.refused) {
    auto request = client.parser.next(piece);
    if (request.ok() && !request->has_value()) return check(piece.empty());
    if (request.ok()) check_again(**request);
    client.refused = !request.ok() || !tables.handle(id, **std::move(request)).ok();
  }
  tables.drop(id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<Client, kClients> clients;
  Tables tables(kLimit, [&](ClientId id, const std::string& bytes) {
    check(id < kClients && !clients[id].refused && bytes.size() <= kMaxMessage);
  });
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const auto head = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    const ClientId id = head % kClients;
    if ((head & 4) != 0) {
      tables.drop(id);
      clients[id] = {};
    }
    const std::string_view piece = rest.substr(0, 1 + (head >> 3));
    rest.remove_prefix(piece.size());
    if (!clients[id].refused) feed(tables, id, clients[id], piece);
    check(tables.held() <= kLimit && tables.waiting() <= kClients);
  }
  for (ClientId id = 0; id < kClients; ++id) tables.drop(id);
  check(tables.waiting() == 0);
  return 0;
}
