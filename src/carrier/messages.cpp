#include "carrier/messages.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/errors.h"
#include "base/wire.h"
#include "link/fields.h"

namespace lockstep::carrier {
namespace {

using link::fields;
using link::kEach;

// links::Other as the wire has it.
struct Place {
  links::Party party;
  std::string host;  // numeric; "": no address
  std::uint16_t port = 0;
  std::string cookie;
};

template <Is<Place> M>
void fields(auto& io, M& place) {
  io(place.party.attempt), fields(io, place.party.stay), io(place.party.incarnation);
  io(place.host), io(place.port), io(place.cookie);
}
template <Is<link::Orders> M>
void fields(auto& io, M& orders) {
  fields(io, orders.round);
  io.list(orders.closed, kEach);
  io.list(orders.out, [](auto& of, auto& stay) { fields(of, stay); });
  io.list(orders.fills, [](auto& of, auto& send) { fields(of, send); });
}
template <Is<Closed> M>
void fields(auto& io, M& closed) {
  fields(io, closed.round);
}
template <Is<Working> M>
void fields(auto& io, M& working) {
  io.list(working.hosts, kEach);
}
template <Is<Line> M>
void fields(auto& io, M& line) {
  io(line.text), io(line.is_end);
}

void fields(WireWriter& io, const Obey& obey) {
  std::vector<Place> places;
  for (const links::Other& other : obey.others) {
    Place& place = places.emplace_back(Place{other.party, "", 0, ""});
    if (other.address) {
      place.host = other.address->host();
      place.port = static_cast<std::uint16_t>(other.address->port());
    }
    place.cookie.assign(reinterpret_cast<const char*>(other.cookie.data()), other.cookie.size());
  }
  fields(io, obey.orders);
  io.list(places, [](auto& of, auto& place) { fields(of, place); });
}

void fields(WireReader& io, Obey& obey) {
  std::vector<Place> places;
  fields(io, obey.orders);
  io.list(places, [](auto& of, auto& place) { fields(of, place); });
  for (const Place& place : places) {
    links::Other& other = obey.others.emplace_back();
    other.party = place.party;
    other.address = control::Address::numeric(place.host, place.port);
    if (place.cookie.size() == sizeof(links::Cookie))
      std::memcpy(other.cookie.data(), place.cookie.data(), sizeof(links::Cookie));
  }
}

}  // namespace

std::string encode(const Message& message) {
  WireWriter io;
  io(static_cast<std::uint8_t>(message.index()));
  std::visit([&io](const auto& one) { fields(io, one); }, message);
  std::string body = io.take(), bytes;
  const auto size = static_cast<std::uint32_t>(body.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  return bytes += body;
}

Result<std::optional<Message>> take_message(std::string& bytes) {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof size) return std::optional<Message>();
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size > kMostMessageBytes)
    return bad_data("a message says " + std::to_string(size) + " bytes, the most are " +
                    std::to_string(kMostMessageBytes));
  if (bytes.size() < sizeof size + size) return std::optional<Message>();
  WireReader io(std::string_view(bytes).substr(sizeof size, size));
  std::uint8_t type = 0;
  io(type);
  if (type >= std::variant_size_v<Message>) return bad_data("a message has no type that there is");
  auto message =
      read_alternative<Message>(io, type, [](WireReader& in, auto& one) { fields(in, one); });
  if (!io.fault().empty()) return bad_data("a message: " + io.fault());
  bytes.erase(0, sizeof size + size);
  return std::optional(std::move(message));
}

}  // namespace lockstep::carrier
