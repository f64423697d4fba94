// Of tables and stays, which cross networks: their fields in the order of the wire (base/wire.h),
// where one function serves writer and reader, and what a table can be.
//
// Threads: any. Errors: kBadData, and the reader's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

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

constexpr HostIndex following(HostIndex host) { return static_cast<HostIndex>(host + 1); }
constexpr Stay following(Stay stay) { return {following(stay.host), stay.count}; }

// Hosts, or stays, that follow one another, as the first and how many: all of a run are one entry.
template <class T>
struct Row {
  T first = {};
  std::uint16_t count = 0;
};
template <class T>
std::vector<Row<T>> rows_of(const std::vector<T>& all) {
  std::vector<Row<T>> rows;
  T next = {};
  for (const T& one : all) {
    if (rows.empty() || one != next || rows.back().count == kMaxMembers) rows.push_back({one, 0});
    ++rows.back().count;
    next = following(one);
  }
  return rows;
}
inline constexpr auto kRow = [](auto& io, auto& row) {
  if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(row.first)>>)
    io(row.first);
  else
    fields(io, row.first);
  io(row.count);
};
template <class T>
void in_rows(WireWriter& io, const std::vector<T>& all) {
  io.list(rows_of(all), kRow);
}
// There is one way to say it.
template <class T>
void in_rows(WireReader& io, std::vector<T>& all) {
  std::vector<Row<T>> rows;
  io.list(rows, kRow);
  for (const Row<T>& row : rows) {
    T one = row.first;
    if (row.count == 0 || row.count > kMaxMembers || all.size() + row.count > 2 * kMaxMembers)
      return io.fail("a row of hosts has " + std::to_string(row.count));
    for (int i = 0; i < row.count; ++i, one = following(one)) all.push_back(one);
  }
  if (rows_of(all).size() != rows.size()) io.fail("rows of hosts are one");
}

// Whether coord::Ownership can be made of it: members in their hosts' order, each host with one at
// least, none twice. Of a run on several hosts: it names them.
Status check(const Table& table);

}  // namespace lockstep::coord
