#include "comm/shm/missing.h"

namespace lockstep::comm::shm {

std::string missing_in_words(const coord::Table& table, const coord::Ownership& ownership,
                             const Layout& layout, const std::optional<Sums::Missing>& lack) {
  if (!lack)
    return "sums are there; losses, buffers, rows, evaluation cells or the next table are not";
  const auto who = [&](std::uint32_t m) {
    const WorkerUid uid = table.members[m].uid;
    return ownership.is_here(m) ? "rank " + std::to_string(m) + " (worker " +
                                      std::to_string(coord::number_in_host(uid)) + ")"
                                : "host " + std::to_string(coord::stay_of(uid).host);
  };
  const std::string bucket = "bucket " + std::to_string(lack->bucket);
  const std::uint32_t owner =
      ownership.chunk_owner(lack->chunk, layout.chunks(lack->bucket), lack->bucket);
  if (lack->piece != nullptr && ownership.is_here(owner))
    return bucket + " lacks the piece from virtual worker " +
           std::to_string(lack->piece->node.first_leaf()) + " on, of " + who(lack->piece->member);
  return bucket + " lacks chunk " + std::to_string(lack->chunk) + " of its sum, of " + who(owner);
}

}  // namespace lockstep::comm::shm
