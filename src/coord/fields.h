// Of tables and stays, which cross networks: their fields in the order of the wire (base/wire.h),
// where one function serves writer and reader, and what a table can be.
//
// Threads: any. Errors: kBadData, and the reader's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/wire.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::coord {

// Transactions are numbered from 0; none comes near it, so sums with it are safe.
inline constexpr std::uint64_t kMaxTxn = std::uint64_t{1} << 62;
// Of one transaction.
inline constexpr std::size_t kMaxItems = std::size_t{1} << 22;

template <Is<Stay> M>
void fields(auto& io, M& stay) {
  io(stay.host), io(stay.count);
}
template <Is<Member> M>
void fields(auto& io, M& member) {
  io(member.uid), io(member.slot);
}
template <Is<Host> M>
void fields(auto& io, M& host) {
  fields(io, host.stay), io(host.workers);
}
template <Is<Table> M>
void fields(auto& io, M& table) {
  const auto each = [](auto& in_or_out, auto& one) { fields(in_or_out, one); };
  io(table.txn), io(table.generation), io(table.flags), io(table.stop_after_step);
  io(table.parts.items), io(table.parts.is_step);
  io.list(table.members, each);
  io.list(table.hosts, each);
}

// Whether coord::Ownership can be made of it: members in their hosts' order, each host with one at
// least, none twice. Of a run on several hosts: it names them.
Status check(const Table& table);

}  // namespace lockstep::coord
