#include "quorum/talk.h"

#include <utility>

#include "base/delta.h"
#include "base/errors.h"

namespace lockstep::quorum {
namespace {

// Far more than the run's state may have.
constexpr std::size_t kMostFactsBytes = std::size_t{16} << 20;

}  // namespace

std::string Talk::say(std::size_t to, const Message& message) {
  Other& other = others_[to];
  Carried carried{.name = book_.add(message.facts), .unread = std::exchange(other.unread, false)};
  const bool has = !other.has || other.has == carried.name || other.said == carried.name;
  if (!has && !other.whole) carried.bytes = book_.difference(*other.has, carried.name);
  if (!carried.bytes.empty()) carried.as = Carried::kDifference, carried.base = *other.has;
  if (other.whole || (!has && carried.bytes.empty()))
    carried.as = Carried::kWhole, carried.bytes = book_.whole(carried.name);
  other.said = carried.name;
  other.as = carried.as;
  other.whole = false;
  return encode(message, carried);
}

Result<Talk::Heard> Talk::hear(std::size_t from, std::string_view bytes) {
  LOCKSTEP_ASSIGN(Said said, decode(bytes));
  LOCKSTEP_ASSIGN(const std::optional<SharedFacts> facts, read(said.facts));
  Other& other = others_[from];
  other.has = said.facts.name;
  if (said.facts.unread) other.said.reset(), other.whole = other.as == Carried::kDifference;
  Heard heard{.message = std::nullopt, .answer = said.facts.unread || !facts};
  if (!facts) {
    other.unread = true;
    return heard;
  }
  book_.add(said.facts.name, *facts);
  said.message.facts = *facts;
  heard.message = std::move(said.message);
  return heard;
}

// None: it does not have what they are a difference to, or they have not become those.
Result<std::optional<SharedFacts>> Talk::read(const Carried& carried) const {
  const SharedFacts* known = book_.find(carried.name);
  if (known != nullptr) return std::optional(*known);
  if (carried.as == Carried::kName) return std::optional<SharedFacts>();
  std::string bytes(carried.bytes);
  if (carried.as == Carried::kDifference) {
    const SharedFacts* base = book_.find(carried.base);
    if (base == nullptr) return std::optional<SharedFacts>();
    auto whole = apply_delta(encode(**base), carried.bytes, kMostFactsBytes);
    if (!whole.ok()) return std::optional<SharedFacts>();
    bytes = *std::move(whole);
  }
  const bool is_it = name_of(carried.name.stamp, bytes) == carried.name;
  if (!is_it && carried.as == Carried::kDifference) return std::optional<SharedFacts>();
  LOCKSTEP_ASSIGN(Facts facts, decode_facts(bytes));
  if (!is_it || facts.stamp != carried.name.stamp)
    return bad_data("what an agent says of the run has another name than its own");
  return std::optional(SharedFacts(std::move(facts)));
}

}  // namespace lockstep::quorum
