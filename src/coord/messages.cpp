#include "coord/messages.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "base/wire.h"

namespace lockstep::coord {
namespace {

// Each message's fields, in the order of the wire; the one list serves writer and reader.
namespace msg = message;

template <Is<msg::ZygoteReady> M>
void fields(auto& io, M& m) {
  io(m.version);
}
template <Is<msg::ForkRequest> M>
void fields(auto& io, M& m) {
  io(m.request), io(m.uid), io(m.slot), io(m.rank), io(m.local_rank), io(m.world_size),
      io(m.restart_count);
  io(m.max_restarts), io(m.newcomer), io(m.run_id), io(m.environment);
}
template <Is<msg::ForkZygote> M>
void fields(auto& io, M& m) {
  io(m.request);
}
template <Is<msg::Forked> M>
void fields(auto& io, M& m) {
  io(m.request), io(m.pid);
}
template <Is<msg::Hello> M>
void fields(auto& io, M& m) {
  io(m.pid), io(m.uid), io(m.version);
}
template <Is<msg::Describe> M>
void fields(auto& io, M& m) {
  io(m.run_dir), io(m.manifest), io(m.parameters);
  io(m.board.virtual_workers), io(m.board.ids_capacity), io(m.board.ring), io(m.board.epoch_ends),
      io(m.board.updates);
  io(m.virtual_workers), io(m.total_txns), io(m.total_steps), io(m.elastic);
}
template <Is<msg::Ready> M>
void fields(auto& io, M& m) {
  io(m.next), io(m.state_hash);
  io(m.time.ran), io(m.time.limit), io(m.time.stop_after_step), io(m.complete);
}
template <class M>
requires Is<M, msg::SyncRecords> || Is<M, msg::CheckpointPublished>
void fields(auto& io, M& m) { io(m.txn); }
template <class M>
requires Is<M, msg::CheckpointFailed> || Is<M, msg::Synced>
void fields(auto& io, M& m) { io(m.txn), io(m.error); }
template <class M>
requires Is<M, msg::Fail> || Is<M, msg::Refuse>
void fields(auto& io, M& m) { io(m.kind), io(m.message); }
template <Is<msg::Leave> M>
void fields(auto& io, M& m) {
  io(m.applied);
}
template <Is<msg::Finish> M>
void fields(auto& io, M& m) {
  io(m.console), io(m.summary);
}
template <Is<msg::Admit> M>
void fields(auto& io, M& m) {
  io(m.newcomer), io(m.checkpointed), io(m.begun);
}
template <Is<msg::Attach> M>
void fields(auto& io, M& m) {
  io(m.version), io(m.rank), io(m.world_size);
}
template <Is<msg::End> M>
void fields(auto& io, M& m) {
  io(m.code), io(m.text);
}
template <Is<msg::Scale> M>
void fields(auto& io, M& m) {
  io(m.workers);
}
template <Is<msg::Reply> M>
void fields(auto& io, M& m) {
  io(m.ok), io(m.text), io(m.kind);
}

Error bad_message(std::string what) {
  return {ErrorKind::kBadData, "control message: " + std::move(what)};
}

}  // namespace

Result<std::string> encode(const Message& message) {
  WireWriter body;
  std::visit([&](const auto& m) { fields(body, m); }, message);
  const std::string text = body.take();
  if (text.size() > kMaxMessageBytes - kMessageHeaderBytes)
    return Error{ErrorKind::kUsage, "control message of type " +
                                        std::to_string(message.index() + 1) + " has " +
                                        std::to_string(text.size()) + " bytes, limit " +
                                        std::to_string(kMaxMessageBytes - kMessageHeaderBytes)};
  WireWriter whole;
  whole(kMessageMagic);
  whole(static_cast<std::uint16_t>(message.index() + 1));
  whole(std::uint16_t{0});
  whole(text);  // its count is the body's length
  return whole.take();
}

Result<Message> decode(std::span<const std::byte> datagram) {
  if (datagram.size() > kMaxMessageBytes)
    return bad_message(std::to_string(datagram.size()) + " bytes, limit " +
                       std::to_string(kMaxMessageBytes));
  if (datagram.size() < kMessageHeaderBytes)
    return bad_message(std::to_string(datagram.size()) + " bytes, a header has " +
                       std::to_string(kMessageHeaderBytes));
  std::string_view text(reinterpret_cast<const char*>(datagram.data()), datagram.size());
  WireReader reader(text.substr(0, kMessageHeaderBytes));
  std::uint32_t magic = 0, length = 0;
  std::uint16_t type = 0, zero = 0;
  reader(magic), reader(type), reader(zero), reader(length);
  text.remove_prefix(kMessageHeaderBytes);
  if (magic != kMessageMagic)
    return bad_message("starts with " + std::to_string(magic) + ", expected " +
                       std::to_string(kMessageMagic) +
                       "; launcher and program are of different versions");
  if (type == 0 || type > std::variant_size_v<Message> || zero != 0)
    return bad_message("unknown type " + std::to_string(type));
  if (length != text.size())
    return bad_message("says " + std::to_string(length) + " bytes of body, has " +
                       std::to_string(text.size()));
  WireReader body(text);
  auto message =
      read_alternative<Message>(body, type - 1u, [](auto& io, auto& m) { fields(io, m); });
  if (!body.fault().empty())
    return bad_message("type " + std::to_string(type) + ": " + body.fault());
  return message;
}

}  // namespace lockstep::coord
