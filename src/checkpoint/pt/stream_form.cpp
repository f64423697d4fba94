// torch.save before 1.6, and today with _use_new_zipfile_serialization=False.
#include <algorithm>
#include <set>

#include "base/errors.h"
#include "checkpoint/pt/forms.h"
#include "pickle/input.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Input;
using pickle::Value;

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kProtocol = 1001;

// The first pickle is an int of 80 bits, which no Value can be. Its length; 0: another pickle.
std::size_t magic_bytes(std::span<const std::byte> bytes) {
  Input in(bytes);
  in.take(1);
  if (in.little<std::uint8_t>() >= 4) in.take(9);  // a frame
  const bool right =
      in.take(2) == "\x8a\x0a" && in.take(kMagic.size()) == kMagic && in.take(1) == ".";
  return right ? in.at() : 0;
}

class Stream {
 public:
  Stream(std::span<const std::byte> bytes, const ReadLimits& limits)
      : bytes_(bytes), limits_(limits) {}

  Result<Value> object(StorageTable& storages) {
    at_ = magic_bytes(bytes_);
    if (at_ == 0) return bad_data("the file is a pickle, but not one of torch.save");
    LOCKSTEP_ASSIGN(const Value protocol, next("protocol", nullptr));
    if (protocol.integer() == nullptr || *protocol.integer() != kProtocol)
      return bad_data("the stream's protocol is not 1001; load and save it with a torch of today");
    LOCKSTEP_ASSIGN(const Value system, next("system", nullptr));
    const Value* const little = system.find("little_endian");
    if (little == nullptr || little->boolean() == nullptr || !*little->boolean())
      return bad_data("the stream is not of a little-endian machine; save it on one");
    return next("object", &storages);
  }

  // In the order of the storages' bytes; all that `storages` has, once each.
  Result<std::vector<std::string>> keys(const StorageTable& storages) {
    LOCKSTEP_ASSIGN(const Value list, next("keys", nullptr));
    std::vector<std::string> keys;
    std::set<std::string> known;
    if (list.list_items() == nullptr) return bad_data("the storages' keys are no list");
    for (const Value& key : *list.list_items()) {
      const bool right = key.text() != nullptr && storages.entries().contains(*key.text());
      if (!right || !known.insert(*key.text()).second)
        return bad_data("the list of storages has one that no tensor names, or has one twice");
      keys.push_back(*key.text());
    }
    if (keys.size() != storages.entries().size())
      return bad_data("the list of storages is not complete");
    return keys;
  }

  std::size_t at() const { return at_; }

 private:
  Result<Value> next(const std::string& what, StorageTable* storages) {
    StorageTable none;
    auto document =
        parse_object(bytes_.subspan(at_), storages == nullptr ? none : *storages, limits_.pickle);
    if (!document.ok())
      return bad_data("pickle '" + what + "' at byte " + std::to_string(at_) +
                      " of the stream: " + document.error().message);
    at_ += document->bytes;
    return std::move(document->root);
  }

  std::span<const std::byte> bytes_;
  const ReadLimits& limits_;
  std::size_t at_ = 0;
};

Status read_storage(ReadableFile& file, std::uint64_t& at, const std::string& key,
                    const StorageTable::Entry& entry) {
  std::uint64_t elements = 0;
  LOCKSTEP_TRY(file.read_at(at, std::as_writable_bytes(std::span(&elements, 1))));
  at += sizeof elements;
  if (entry.element_bytes == 0)
    return bad_data("storage " + quote(key) +
                    " is of a class whose elements' size is not known, so that what follows cannot "
                    "be found; save it as a zip, with a torch of today");
  if (elements != entry.storage->size / entry.element_bytes)
    return bad_data("storage " + quote(key) + " at byte " + std::to_string(at) + " has " +
                    std::to_string(elements) + " elements, and its tensors say " +
                    std::to_string(entry.storage->size / entry.element_bytes));
  if (entry.storage->size > file.size() - at)
    return bad_data("storage " + quote(key) + " of " + std::to_string(entry.storage->size) +
                    " bytes at byte " + std::to_string(at) +
                    " goes beyond the file's end; fetch or copy it again");
  if (entry.wanted()) {
    LOCKSTEP_ASSIGN(const auto room, room_for(*entry.storage));
    LOCKSTEP_TRY(file.read_at(at, room));
  }
  at += entry.storage->size;
  return {};
}

}  // namespace

Result<Value> parse_stream(ReadableFile& file, const ReadLimits& limits) {
  std::vector<std::byte> start(
      static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), limits.pickle_bytes)));
  LOCKSTEP_TRY(file.read_at(0, start));
  Stream stream(start, limits);
  StorageTable storages;
  LOCKSTEP_ASSIGN(Value object, stream.object(storages));
  LOCKSTEP_ASSIGN(const auto keys, stream.keys(storages));
  std::uint64_t at = stream.at();
  for (const std::string& key : keys)
    LOCKSTEP_TRY(read_storage(file, at, key, storages.entries().at(key)));
  return object;
}

}  // namespace lockstep::checkpoint::pt
