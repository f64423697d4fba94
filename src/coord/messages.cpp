#include "coord/messages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace lockstep::coord {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire format is written in host order");

// Each message's fields, in the order of the wire; the one list serves writer and reader.
namespace msg = message;
template <class M, class Want>
concept Is = std::is_same_v<std::remove_const_t<M>, Want>;

template <class M>
requires Is<M, msg::StatusQuery> || Is<M, msg::Done>
void fields(auto& io, M& m) {
  static_cast<void>(io);
  static_cast<void>(m);
}

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
  io(m.board.virtual_workers), io(m.board.ids_capacity), io(m.board.ring), io(m.board.first_txn),
      io(m.board.epoch_ends);
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
  io(m.newcomer), io(m.checkpointed);
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

template <class T>
concept Number = std::is_integral_v<T> && !std::is_same_v<T, bool>;

class Writer {
 public:
  void operator()(const Number auto& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(const bool& value) { (*this)(static_cast<std::uint8_t>(value ? 1 : 0)); }
  void operator()(const ErrorKind& kind) { (*this)(static_cast<std::uint8_t>(kind)); }
  template <class Tag, class V>
  void operator()(const Id<Tag, V>& id) {
    (*this)(id.value());
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  void operator()(const std::vector<std::pair<std::string, std::string>>& pairs) {
    (*this)(static_cast<std::uint32_t>(pairs.size()));
    for (const auto& [name, value] : pairs) (*this)(name), (*this)(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Never reads past the end; after the first fault every field stays as it is.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  void operator()(Number auto& value) {
    if (!need(sizeof(value), "a number")) return;
    std::memcpy(&value, in_.data(), sizeof(value));
    in_.remove_prefix(sizeof(value));
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) return fail("a flag is " + std::to_string(byte) + ", not 0 or 1");
    value = byte != 0;
  }
  void operator()(ErrorKind& kind) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > static_cast<std::uint8_t>(ErrorKind::kInternal))
      return fail("an error kind is " + std::to_string(byte));
    kind = static_cast<ErrorKind>(byte);
  }
  template <class Tag, class V>
  void operator()(Id<Tag, V>& id) {
    V value{};
    (*this)(value);
    id = Id<Tag, V>(value);
  }
  void operator()(std::string& text) {
    std::uint32_t size = 0;
    (*this)(size);
    if (!need(size, "a text")) return;
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    bool present = false;
    (*this)(present);
    if (present && fault_.empty()) (*this)(value.emplace());
  }
  void operator()(std::vector<std::pair<std::string, std::string>>& pairs) {
    std::uint32_t count = 0;
    (*this)(count);
    // An empty pair takes 8 bytes: a count that cannot be true is refused before anything is
    // allocated.
    if (count > in_.size() / 8) return fail("a list says " + std::to_string(count) + " entries");
    for (std::uint32_t i = 0; i < count && fault_.empty(); ++i) {
      auto& [name, value] = pairs.emplace_back();
      (*this)(name), (*this)(value);
    }
  }

  void expect_end() {
    if (!in_.empty()) fail(std::to_string(in_.size()) + " bytes follow the last field");
  }
  const std::string& fault() const { return fault_; }

 private:
  bool need(std::size_t bytes, const char* what) {
    if (!fault_.empty()) return false;
    if (bytes <= in_.size()) return true;
    fail(std::string(what) + " of " + std::to_string(bytes) + " bytes, but " +
         std::to_string(in_.size()) + " are left");
    return false;
  }
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  std::string_view in_;
  std::string fault_;
};

Error bad_message(std::string what) {
  return {ErrorKind::kBadData, "control message: " + std::move(what)};
}

template <std::size_t I>
Result<Message> decode_as(std::string_view body) {
  std::variant_alternative_t<I, Message> m;
  Reader reader(body);
  fields(reader, m);
  reader.expect_end();
  if (!reader.fault().empty())
    return bad_message("type " + std::to_string(I + 1) + ": " + reader.fault());
  return Message(std::move(m));
}

template <std::size_t... I>
Result<Message> decode_type(std::size_t index, std::string_view body, std::index_sequence<I...>) {
  using Decode = Result<Message> (*)(std::string_view);
  static constexpr std::array<Decode, sizeof...(I)> kDecoders{decode_as<I>...};
  return kDecoders[index](body);
}

}  // namespace

Result<std::string> encode(const Message& message) {
  Writer body;
  std::visit([&](const auto& m) { fields(body, m); }, message);
  const std::string text = body.take();
  if (text.size() > kMaxMessageBytes - kMessageHeaderBytes)
    return Error{ErrorKind::kUsage, "control message of type " +
                                        std::to_string(message.index() + 1) + " has " +
                                        std::to_string(text.size()) + " bytes, limit " +
                                        std::to_string(kMaxMessageBytes - kMessageHeaderBytes)};
  Writer whole;
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
  Reader reader(text.substr(0, kMessageHeaderBytes));
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
  return decode_type(type - 1u, text, std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace lockstep::coord
