// What the persistent ids of torch.save name (torch/serialization.py, persistent_id).
#include <algorithm>

#include "base/errors.h"
#include "base/text.h"
#include "checkpoint/pt/torch_types.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Items;
using pickle::Value;

// What a device's name may be. "meta" has no bytes.
bool is_location(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  const std::string index = kind.size() == text.size() ? "0" : text.substr(kind.size() + 1);
  const auto of_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return kind != "meta" && !kind.empty() && kind.size() < 20 &&
         std::ranges::all_of(kind, of_name) && !index.empty() && index.size() < 4 &&
         index.find_first_not_of("0123456789") == std::string::npos;
}

// (key, first element, elements) of a view in a storage: in the old stream alone.
Status narrow(StorageRef& ref, const Value& view, std::uint64_t element_bytes) {
  const Items* const items = view.tuple_items();
  const bool right = items != nullptr && items->size() == 3 && (*items)[0].text() != nullptr &&
                     (*items)[1].integer() != nullptr && (*items)[2].integer() != nullptr;
  if (!right) return bad_data("a storage's view is not (key, offset, size)");
  const auto begin = static_cast<std::uint64_t>(*(*items)[1].integer());
  const auto count = static_cast<std::uint64_t>(*(*items)[2].integer());
  const std::uint64_t all = element_bytes == 0 ? begin + count : ref.storage->size / element_bytes;
  if (begin > all || count > all - begin) return bad_data("a storage's view goes beyond it");
  ref.begin = begin * element_bytes;
  return {};
}

}  // namespace

Result<Value> StorageTable::resolve(const Value& id) {
  const Items* const items = id.tuple_items();
  const std::string* const kind = items == nullptr || items->empty() ? nullptr : (*items)[0].text();
  if (kind != nullptr && *kind == "module" && items->size() > 1)
    return Value::opaque(global_name((*items)[1]));
  if (kind == nullptr || *kind != "storage" || items->size() < 5 || items->size() > 6)
    return bad_data("a persistent id is not ('storage', class, key, location, elements)");
  const std::string* const key = (*items)[2].text();
  const std::string* const location = (*items)[3].text();
  const std::int64_t* const elements = (*items)[4].integer();
  if (key == nullptr || key->size() > 64 || elements == nullptr || *elements < 0)
    return bad_data("a storage's key is no short text, or its size no count");
  if (location == nullptr) return bad_data("a storage lies on no device");
  LOCKSTEP_ASSIGN(const StorageClass type, storage_class((*items)[1]));
  const auto ref = std::make_shared<StorageRef>();
  ref->element = type.element;
  if (!is_location(*location)) ref->place = for_terminal(location->substr(0, 20));
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(*elements), type.bytes, &bytes))
    return bad_data("a storage's size is beyond 64 bits");
  const auto [entry, fresh] = entries_.try_emplace(*key, Entry{nullptr, type.bytes});
  if (fresh) entry->second.storage = std::make_shared<Storage>();
  if (fresh) entry->second.storage->size = bytes;
  ref->storage = entry->second.storage;
  if (ref->storage->size != bytes || entry->second.element_bytes != type.bytes)
    return bad_data("storage " + quote(*key) + " has two sizes");
  if (items->size() == 6 && !(*items)[5].is_none())
    LOCKSTEP_TRY(narrow(*ref, (*items)[5], type.bytes));
  return Value(ref);
}

}  // namespace lockstep::checkpoint::pt
