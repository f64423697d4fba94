#include "link/messages.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "coord/board.h"
#include "link/fields.h"
#include "link/memory.h"

namespace lockstep::link {
namespace {

using link::fields;

template <Is<FrameHead> M>
void fields(auto& io, M& head) {
  io.one_of(head.what, FrameHead::What::kItem);
  if (head.what == FrameHead::What::kHave) return;
  fields(io, head.item);
  if (head.what == FrameHead::What::kItem) io(head.flags), io(head.offset);
}
template <Is<Round> M>
void fields(auto& io, M& round) {
  fields(io, round.stamp);
  coord::in_rows(io, round.set), io.list(round.out, kEach), coord::in_rows(io, round.table);
  io.list(round.known, kEach);
}
template <Is<Answer::Same> M>
void fields(auto& io, M& same) {
  io(same.txn), io(same.content);
}
template <Is<Fills> M>
void fields(auto& io, M& fills) {
  fields(io, fills.stamp), io(fills.host);
  io.list(fills.order, kEach), io.list(fills.get, kEach), io.list(fills.send, kEach);
}
template <Is<Promise> M>
void fields(auto& io, M& m) {
  io(m.term), io(m.host), fields(io, m.newest);
}
template <Is<Appended> M>
void fields(auto& io, M& appended) {
  fields(io, appended.stamp), io(appended.host);
}

// Items that follow one another: the same but for their index.
struct Run {
  Item first;
  std::uint32_t count = 0;
};
template <Is<Run> M>
void fields(auto& io, M& run) {
  fields(io, run.first), io(run.count);
}

std::vector<Run> runs_of(const std::vector<Item>& items) {
  std::vector<Run> runs;
  for (const Item& item : items) {
    Item next = runs.empty() ? item : runs.back().first;
    if (!runs.empty()) next.index += runs.back().count;
    if (!runs.empty() && next == item)
      ++runs.back().count;
    else
      runs.push_back({item, 1});
  }
  return runs;
}

// Nobody has more of the later ones.
bool is_beyond(const Item& first, const Item& item) {
  return item.txn.value() > first.txn.value() + coord::kTables;
}

bool is_of(const Plan& plan, const Run& run) {
  Item last = run.first;
  last.index += run.count - 1;
  return is_of(plan, last);
}

// `plan`: none is known.
Status read_runs(const std::vector<Run>& runs, const Plan* plan, std::vector<Item>& items) {
  for (const Run& run : runs) {
    if (is_beyond(runs.front().first, run.first))
      return bad_data("a Have has items of transactions that are too far from one another");
    const bool is_one = run.first.kind == Kind::kTable || run.first.kind == Kind::kBuffers;
    if (run.count == 0 || (is_one && run.count > 1) || !is_in_have(run.first.kind) ||
        run.first.txn.value() > kMaxTxn || run.count > ~run.first.index ||
        items.size() + run.count > kMaxHaveItems)
      return bad_data("a Have has items that there cannot be");
    if (plan != nullptr && !is_of(*plan, run))
      return bad_data("a Have has items that are not in the plan");
    for (std::uint32_t i = 0; i < run.count; ++i) {
      Item item = run.first;
      item.index += i;
      if (!items.empty() && !(items.back() < item)) return bad_data("a Have is not in order");
      items.push_back(item);
    }
  }
  // There is one way to say it.
  if (runs_of(items).size() != runs.size()) return bad_data("a Have has runs that are one");
  return {};
}

void write(WireWriter& io, const Have& have) {
  io(have.first), io(have.lowest);
  io.list(runs_of(have.marked), [](auto& out, const Run& run) { fields(out, run); });
}

Status read(WireReader& io, const Plan* plan, Have& have) {
  std::vector<Run> runs;
  io(have.first), io(have.lowest);
  io.list(runs, [](auto& in, Run& run) { fields(in, run); });
  if (!io.fault().empty()) return bad_data("a Have: " + io.fault());
  if (have.lowest > kMaxTxn || (have.first > kMaxTxn && have.first != kNever))
    return bad_data("a Have begins at transaction " + std::to_string(have.lowest));
  return read_runs(runs, plan, have.marked);
}

Status end(WireReader& io, const char* what) {
  io.expect_end();
  if (io.fault().empty()) return {};
  return bad_data(std::string(what) + ": " + io.fault());
}

// What a host has to go through to obey, or to deal.
Status can_be(const Round& round) {
  if (round.set.size() <= coord::kMaxMembers && round.out.size() <= coord::kMaxDead &&
      round.table.size() <= coord::kMaxMembers && round.known.size() <= coord::kTables)
    return {};
  return bad_data("a round is of more hosts than there can be");
}
Status can_be(const Fills& fills) {
  if (fills.order.size() <= coord::kMaxDead) return {};
  return bad_data("fills have a list of deaths that is too long");
}
Status can_be(const Appended&) { return {}; }
Status can_be(const Promise& promise) { return can_be(promise.newest); }

Result<std::string> not_too_long(std::string bytes, const char* what) {
  if (bytes.size() <= kMaxRoundBytes) return bytes;
  return misuse(std::string(what) + " has " + std::to_string(bytes.size()) +
                " bytes, the most are " + std::to_string(kMaxRoundBytes));
}

void write(WireWriter& io, const Answer& answer) {
  fields(io, answer.stamp), io(answer.host);
  write(io, answer.have);
  io.list(answer.other_tables, kEach), io.list(answer.appended, kEach);
  io.list(answer.known_tables, [](auto& out, const auto& one) { fields(out, one); });
}

Status read(WireReader& io, Answer& answer) {
  fields(io, answer.stamp), io(answer.host);
  LOCKSTEP_TRY(read(io, nullptr, answer.have));
  io.list(answer.other_tables, kEach), io.list(answer.appended, kEach);
  io.list(answer.known_tables, [](auto& in, auto& one) { fields(in, one); });
  LOCKSTEP_TRY(end(io, "an answer"));
  const std::size_t tables = answer.other_tables.size() + answer.known_tables.size();
  if (tables > coord::kTables)
    return bad_data("an answer has " + std::to_string(tables) + " tables");
  if (answer.appended.size() > coord::kMaxDead)
    return bad_data("an answer has a list of deaths that is too long");
  for (const coord::Table& table : answer.other_tables) LOCKSTEP_TRY(coord::check(table));
  for (const Answer::Same& same : answer.known_tables)
    if (same.txn > kMaxTxn) return bad_data("an answer has a table of no transaction");
  return {};
}

}  // namespace

bool is_of(const Plan& plan, const Item& item) {
  if (item.txn.value() > kMaxTxn) return false;
  if (item.kind == Kind::kTable) return true;
  const Contents& contents = plan.contents(item.txn.value());
  const auto has_chunk = [&] {
    return item.bucket < contents.chunks.size() && item.index < contents.chunks[item.bucket];
  };
  switch (item.kind) {
    case Kind::kChunk:
      return has_chunk();
    case Kind::kNode:
      return has_chunk() && item.level < 32 &&
             (std::uint64_t{item.node} << item.level) < contents.records;
    case Kind::kLoading:
    case Kind::kImage:
      return true;
    case Kind::kReady:
      return item.index < coord::kMaxSlots && item.level <= 0xffff;
    case Kind::kRecord:
    case Kind::kJudged:
      return item.index < contents.records;
    case Kind::kBuffers:
      return item.index < contents.buffers;
    case Kind::kRow:
      return item.index < contents.rows;
    default:
      return item.index < contents.cells;
  }
}

std::string encode(const FrameHead& head) {
  WireWriter io;
  fields(io, head);
  return io.take();
}

Result<FrameHead> decode_head(std::string_view bytes) {
  FrameHead head;
  WireReader io(bytes);
  fields(io, head);
  LOCKSTEP_TRY(end(io, "a frame's header"));
  const bool is_table = head.what == FrameHead::What::kTable;
  if (head.what != FrameHead::What::kHave &&
      ((head.item.kind == Kind::kTable) != is_table || (head.flags & ~kAllFlags) != 0))
    return bad_data(std::string("a frame of a ") + kKindNames[static_cast<int>(head.item.kind)] +
                    " that cannot be");
  return head;
}

Result<std::string> encode(const Have& have) {
  WireWriter io;
  write(io, have);
  return not_too_long(io.take(), "a Have");
}

Result<Have> decode_have(std::string_view bytes, const Plan* plan) {
  Have have;
  WireReader io(bytes);
  LOCKSTEP_TRY(read(io, plan, have));
  LOCKSTEP_TRY(end(io, "a Have"));
  return have;
}

std::string encode(const coord::Table& table) {
  WireWriter io;
  fields(io, table);
  return io.take();
}

Result<coord::Table> decode_table(std::string_view bytes) {
  coord::Table table;
  WireReader io(bytes);
  fields(io, table);
  LOCKSTEP_TRY(end(io, "a table"));
  LOCKSTEP_TRY(coord::check(table));
  return table;
}

std::uint64_t content_of(coord::Table table) {
  table.txn = Txn(0);
  const std::string bytes = encode(table);
  return xxh3(std::as_bytes(std::span(bytes)));
}

Result<std::string> encode(const RoundMessage& message) {
  WireWriter io;
  io(static_cast<std::uint8_t>(message.index()));
  if (const auto* answer = std::get_if<Answer>(&message))
    write(io, *answer);
  else
    std::visit(
        [&io](const auto& one) {
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(one)>, Answer>)
            fields(io, one);
        },
        message);
  return not_too_long(io.take(), "a message of a round");
}

Result<RoundMessage> decode_round(std::string_view bytes) {
  WireReader io(bytes);
  std::uint8_t type = 0;
  io(type);
  if (!io.fault().empty() || type >= std::variant_size_v<RoundMessage>)
    return bad_data("a message of a round has no type that there is");
  if (type == RoundMessage(Answer{}).index()) {
    Answer answer;
    LOCKSTEP_TRY(read(io, answer));
    return RoundMessage(std::move(answer));
  }
  auto message = read_alternative<RoundMessage>(io, type, [](WireReader& in, auto& one) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(one)>, Answer>) fields(in, one);
  });
  if (!io.fault().empty()) return bad_data("a message of a round: " + io.fault());
  LOCKSTEP_TRY(std::visit(
      [](const auto& one) -> Status {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(one)>, Answer>)
          return {};
        else
          return can_be(one);
      },
      message));
  return message;
}

}  // namespace lockstep::link
