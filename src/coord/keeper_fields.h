// Fields of what keepers say, for those that write and read it (keeper_wire.cpp,
// run_state_wire.cpp); what is read is in its range.
//
// Threads: any. Errors: the reader's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "base/wire.h"
#include "coord/fields.h"
#include "coord/keeper_messages.h"
#include "coord/keeper_wire.h"

namespace lockstep::coord {

// Nanoseconds, and counts: sums of two are safe.
inline constexpr std::uint64_t kMost = kMaxTxn;
inline constexpr int kMostSignal = 64, kMostCode = 255;

// A number in this range.
template <class T>
void within(WireWriter& io, const T& value, std::uint64_t, std::uint64_t) {
  io(value);
}
template <class T>
void within(WireReader& io, T& value, std::uint64_t least, std::uint64_t most) {
  io(value);
  const auto number = [](const auto& one) {
    if constexpr (WireNumber<T>)
      return one;
    else
      return one.value();
  }(value);
  const bool is_negative = number < decltype(number){0};
  if (is_negative || static_cast<std::uint64_t>(number) < least ||
      static_cast<std::uint64_t>(number) > most)
    io.fail("a number is " + std::to_string(number) + ", from " + std::to_string(least) + " to " +
            std::to_string(most) + " are possible");
}
void upto(auto& io, auto& value, std::uint64_t most) { within(io, value, 0, most); }

inline void text(WireWriter& io, const std::string& words, std::size_t most) {
  static constexpr std::string_view kCut = " …";
  if (words.size() <= most) return io(words);
  io(words.substr(0, most - kCut.size()) + std::string(kCut));
}
inline void text(WireReader& io, std::string& words, std::size_t most) {
  io(words);
  if (words.size() > most)
    io.fail("a text has " + std::to_string(words.size()) + " bytes, the most are " +
            std::to_string(most));
}

inline void seconds_field(WireWriter& io, const double& value) {
  io(std::bit_cast<std::uint64_t>(value));
}
inline void seconds_field(WireReader& io, double& value) {
  std::uint64_t bits = 0;
  io(bits);
  value = std::bit_cast<double>(bits);
  if (!std::isfinite(value) || value < 0) io.fail("a time is no number of seconds");
}

inline void wish(WireWriter& io, const Table& table) { fields(io, table); }
inline void wish(WireReader& io, Table& table) {
  fields(io, table);
  if (!io.fault().empty()) return;
  if (const Status status = check(table); !status.ok()) io.fail(status.error().message);
}

void error(auto& io, auto& what, std::size_t most) { io(what.kind), text(io, what.message, most); }

template <Is<Waits> M>
void fields(auto& io, M& m) {
  upto(io, m.txn, kMaxTxn), upto(io, m.items, kMaxItems);
}
template <Is<HostFacts> M>
void fields(auto& io, M& m) {
  fields(io, m.stay), io.one_of(m.standing, Standing::kOut);
  upto(io, m.asked, kMaxWorkers), upto(io, m.wanted, kMaxVirtualWorkers);
  upto(io, m.target, kMaxVirtualWorkers), upto(io, m.heard, kMost), io(m.goes_on);
  fields(io, m.waits);
}
template <Is<RunFacts> M>
void fields(auto& io, M& m) {
  io.one_of(m.group, Group::kStopped), io(m.elastic);
  upto(io, m.virtual_workers, kMaxVirtualWorkers), upto(io, m.replacements_left, kMost);
  io.list(m.hosts, [](auto& of, auto& one) { fields(of, one); });
  upto(io, m.restarts, kMaxDead), io(m.in_order), upto(io, m.stop_code, kMostCode);
  text(io, m.stop_reason, kMostWords);
}

template <Is<order::Admit> M>
void fields(auto& io, M& m) {
  io(m.uid), io(m.newcomer);
}
template <Is<order::Keep> M>
void fields(auto& io, M& m) {
  io(m.uid);
}
template <Is<order::Refuse> M>
void fields(auto& io, M& m) {
  io(m.uid), error(io, m.error, kMostWords);
}
template <Is<order::RecordStop> M>
void fields(auto& io, M& m) {
  upto(io, m.stop.stop_after_step, kMost), seconds_field(io, m.stop.limit_s),
      seconds_field(io, m.stop.run_s);
}
template <Is<order::FirstTable> M>
void fields(auto& io, M& m) {
  wish(io, m.table), upto(io, m.ran_ns, kMost);
}
template <Is<order::Propose> M>
void fields(auto& io, M& m) {
  wish(io, m.wish), text(io, m.reason, kMostWords);
}
template <Is<order::Serve> M>
void fields(auto& io, M& m) {
  io(m.others);
}
template <Is<order::Stop> M>
void fields(auto& io, M& m) {
  io.maybe(m.signal, [](auto& of, auto& signal) { upto(of, signal, kMostSignal); });
}
template <Is<order::Kill> M>
void fields(auto& io, M& m) {
  text(io, m.why, kMostWords);
}

// The type, and its fields by `each(io, one)`.
template <class Variant>
void alternative(WireWriter& io, const Variant& one, auto each) {
  io(static_cast<std::uint8_t>(one.index()));
  std::visit([&](const auto& what) { each(io, what); }, one);
}
template <class Variant>
void alternative(WireReader& io, Variant& one, auto each) {
  std::uint8_t type = 0;
  io(type);
  if (type >= std::variant_size_v<Variant>) return io.fail("no type that there is");
  const auto read = [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == type ? each(io, one.template emplace<I>()) : void()), ...);
  };
  read(std::make_index_sequence<std::variant_size_v<Variant>>());
}

void any_order(auto& io, auto& order) {
  alternative(io, order, [](auto& of, auto& what) { fields(of, what); });
}

template <class Word>
Result<Word> read_whole(std::string_view bytes, const char* what, auto fields_of) {
  Word word;
  WireReader io(bytes);
  fields_of(io, word);
  io.expect_end();
  if (io.fault().empty()) return word;
  return bad_data(std::string(what) + ": " + io.fault());
}

}  // namespace lockstep::coord
