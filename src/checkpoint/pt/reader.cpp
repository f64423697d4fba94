#include "checkpoint/pt/reader.h"

#include <array>

#include "checkpoint/pt/forms.h"

namespace lockstep::checkpoint::pt {
namespace {

constexpr std::string_view kAdvice =
    "save tensors and plain values alone in Python: torch.save(model.state_dict(), path)";

}  // namespace

Result<pickle::Document> parse_object(std::span<const std::byte> bytes, StorageTable& storages,
                                      const pickle::Limits& limits) {
  const pickle::Table table =
      pickle::table_of({pickle::plain_globals(), pickle::numpy_globals(), torch_globals()});
  return pickle::read(bytes,
                      {.globals = table,
                       .persistent = [&](const pickle::Value& id) { return storages.resolve(id); },
                       .advice = kAdvice,
                       .limits = limits,
                       .kept_objects = "__torch__."});
}

Result<std::span<std::byte>> room_for(Storage& storage) {
  LOCKSTEP_ASSIGN(const auto made, allocate(storage.size));
  storage.data = made->data;
  storage.owner = made->owner;
  return std::span(static_cast<std::byte*>(made->owner.get()),
                   static_cast<std::size_t>(storage.size));
}

Result<pickle::Value> parse(ReadableFile& file, const ReadLimits& limits) {
  std::array<std::byte, 4> start{};
  if (file.size() < start.size())
    return Error{ErrorKind::kBadData, "the file has " + std::to_string(file.size()) +
                                          " bytes and is no .pt file; fetch or copy it again"};
  LOCKSTEP_TRY(file.read_at(0, start));
  if (start == std::array{std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}})
    return parse_zip(file, limits);
  if (start[0] == std::byte{0x80}) return parse_stream(file, limits);
  const std::string text(reinterpret_cast<const char*>(start.data()), start.size());
  return Error{ErrorKind::kBadData,
               "the file starts with " + quote(text) +
                   " and is neither a zip nor a pickle of "
                   "torch.save (a web page, or a file of torch before 0.1.10?); fetch it again, or "
                   "load and save it with a torch of today"};
}

Result<pickle::Value> read(Env& env, const std::string& path, const ReadLimits& limits) {
  LOCKSTEP_TRY(check_local(path));
  LOCKSTEP_ASSIGN(const auto file, env.open_read(path));
  auto value = parse(*file, limits);
  if (!value.ok() && value.error().kind == ErrorKind::kBadData)
    return Error{ErrorKind::kBadData, "'" + path + "': " + value.error().message};
  return value;
}

}  // namespace lockstep::checkpoint::pt
