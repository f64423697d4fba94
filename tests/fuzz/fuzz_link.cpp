// Any bytes as what links say to each other (a stream of frames, a header, a Have, a table, a
// hello), as what agents say in a round and of records, and as what an agent and its link say:
// refused, or something that says the same when it is written again, and from which the rules can
// be worked.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carrier/messages.h"
#include "coord/ownership.h"
#include "link/messages.h"
#include "link/record_words.h"
#include "links/frames.h"
#include "links/tcp/hello.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::link;

namespace {

void work_with(const coord::Table& table) {
  const coord::Ownership owners(table, 5, table.hosts.front().stay, {});
  require(!owners.pieces().empty());
  const auto first = owners.first_live();
  require(first && *first < table.members.size());
}

void as_round(std::string_view bytes) {
  const auto message = decode_round(bytes);
  if (!message.ok()) return;
  const auto again = encode(*message);
  require(again.ok() && *again == bytes);
  if (const auto* answer = std::get_if<Answer>(&*message))
    for (const coord::Table& table : answer->other_tables) work_with(table);
}

// Into memory of the announced size, or into the bin; what is refused ends it.
class Sink : public links::Inbox::Sink {
 public:
  Result<std::optional<std::span<std::byte>>> landing(std::string_view header,
                                                      std::size_t bytes) override {
    require(!header.empty() && header.size() <= links::kMostHeaderBytes);
    require(bytes <= links::kMostBodyBytes && !in_body_);
    in_body_ = true;
    if (header[0] % 4 == 3) return Error{ErrorKind::kBadData, "refused"};
    if (header[0] % 4 == 2) return std::optional<std::span<std::byte>>();
    memory_.resize(bytes);
    return std::optional(std::span(memory_));
  }
  Status landed(std::string_view) override {
    require(std::exchange(in_body_, false));
    return {};
  }

 private:
  std::vector<std::byte> memory_;
  bool in_body_ = false;
};

// In pieces of a drawn size.
void as_stream(std::string_view bytes) {
  Sink sink;
  links::Inbox inbox;
  std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes[0]);
  while (!bytes.empty()) {
    std::size_t taken = 0;
    for (const iovec& room : inbox.room()) {
      const std::size_t count = std::min({room.iov_len, bytes.size(), piece - taken});
      if (count > 0) std::memcpy(room.iov_base, bytes.data(), count);
      bytes.remove_prefix(count);
      taken += count;
    }
    require(taken > 0);
    if (!inbox.take(taken, sink).ok()) return;
    piece = 1 + piece * 7 % 5000;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      if (const auto head = decode_head(bytes); head.ok()) require(encode(*head) == bytes);
      break;
    case 1:
      if (const auto have = decode_have(bytes); have.ok()) require(*encode(*have) == bytes);
      break;
    case 2:
      if (const auto table = decode_table(bytes); table.ok()) {
        require(encode(*table) == bytes);
        work_with(*table);
      }
      break;
    case 3:
      as_round(bytes);
      break;
    case 4:
      as_stream(bytes);
      break;
    case 5: {
      std::string text(bytes);
      if (const auto message = carrier::take_message(text); message.ok() && *message)
        (void)carrier::encode(**message);
      break;
    }
    case 7:
      if (const auto records = decode_records(bytes); records.ok())
        require(encode(*records) == bytes);
      break;
    default:
      if (const auto hello = links::decode_hello(bytes)) require(links::encode(*hello) == bytes);
  }
  return 0;
}
