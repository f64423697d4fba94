#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/header_sax.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kDataAlignment = 64;
constexpr std::size_t kPythonAlignment = 8;

Error bad_file(const std::string& what) { return {ErrorKind::kBadData, "safetensors: " + what}; }
Error bad_request(const std::string& what) { return {ErrorKind::kUsage, "safetensors: " + what}; }

// Sizes match, and the tensors cover the data from its first to its last byte, each byte once.
Status check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    const std::string who = "tensor " + quote(entry.info.name) + ": ";
    if (entry.begin != covered || entry.end < entry.begin)
      return bad_file(who + "data_offsets [" + std::to_string(entry.begin) + ", " +
                      std::to_string(entry.end) + "] leave a hole or overlap; expected begin " +
                      std::to_string(covered));
    LOCKSTEP_ASSIGN(const auto bytes, stored_size(entry.info));
    if (bytes && entry.end - entry.begin != *bytes)
      return bad_file(who + describe(entry.info) + " needs " + std::to_string(*bytes) +
                      " bytes, data_offsets give " + std::to_string(entry.end - entry.begin));
    covered = entry.end;
  }
  if (covered != data_bytes)
    return bad_file("the file holds " + std::to_string(data_bytes) +
                    " bytes of data, its header names " + std::to_string(covered) +
                    (covered > data_bytes ? "; the file is cut short" : ""));
  return {};
}

std::optional<std::string> json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // not UTF-8
  }
}

Status check_names(std::span<const TensorInfo> tensors, std::span<const std::size_t> order) {
  std::vector<std::string_view> names;
  for (const std::size_t i : order) names.push_back(tensors[i].name);
  std::ranges::sort(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) return bad_request("a tensor has no name");
    if (names[i] == "__metadata__") return bad_request("the name '__metadata__' is reserved");
    if (i > 0 && names[i] == names[i - 1])
      return bad_request("two tensors are named " + quote(names[i]));
  }
  return {};
}

Result<std::string> metadata_json(const Metadata& metadata) {
  std::string json = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    const auto k = json_string(key);
    const auto v = json_string(value);
    if (!k || !v) return bad_request("metadata " + quote(key) + " is not UTF-8");
    if (json.back() != '{') json += ',';
    json += *k + ":" + *v;
  }
  return json + "}";
}

Result<std::string> entry_json(const Entry& entry) {
  const auto name = json_string(entry.info.name);
  if (!name) return bad_request("the name " + quote(entry.info.name) + " is not UTF-8");
  std::string shape;
  for (const std::uint64_t extent : entry.info.shape) {
    if (!shape.empty()) shape += ',';
    shape += std::to_string(extent);
  }
  return *name + ":{\"dtype\":\"" + std::string(name_of(entry.info.dtype)) + "\",\"shape\":[" +
         shape + "],\"data_offsets\":[" + std::to_string(entry.begin) + "," +
         std::to_string(entry.end) + "]}";
}

// Length, JSON, and spaces up to the alignment.
Result<std::string> frame(std::string json, std::size_t alignment) {
  json.resize((json.size() + kLengthBytes + alignment - 1) / alignment * alignment - kLengthBytes,
              ' ');
  if (json.size() > kMaxHeaderBytes)
    return bad_request("the header has " + std::to_string(json.size()) + " bytes, limit " +
                       std::to_string(kMaxHeaderBytes) + "; use fewer or shorter names");
  std::string text(kLengthBytes, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(text.data(), &length, kLengthBytes);
  return text + json;
}

// The tensors' numbers, sorted so.
template <class Less>
Result<std::vector<std::size_t>> sorted(std::span<const TensorInfo> tensors, Less&& less) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  LOCKSTEP_TRY(check_names(tensors, order));
  std::ranges::sort(order,
                    [&](std::size_t a, std::size_t b) { return less(tensors[a], tensors[b]); });
  return order;
}

// Places for the data in the order of layout.source; described[i] is tensor i's entry.
Result<std::vector<std::string>> place(std::span<const TensorInfo> tensors, Layout& layout) {
  std::vector<std::string> described(tensors.size());
  for (const std::size_t i : layout.source) {
    LOCKSTEP_ASSIGN(const std::uint64_t bytes, byte_size(tensors[i]));
    const std::uint64_t at = layout.file_bytes;
    layout.entries.push_back({tensors[i], at, at + bytes, i});
    layout.file_bytes += bytes;
    LOCKSTEP_ASSIGN(described[i], entry_json(layout.entries.back()));
  }
  return described;
}

// The header: the metadata, and the entries in that order.
Status write_header(const Metadata& metadata, std::span<const std::string> described,
                    std::span<const std::size_t> order, std::size_t alignment, Layout& layout) {
  std::string json = "{";
  if (!metadata.empty()) {
    LOCKSTEP_ASSIGN(const std::string text, metadata_json(metadata));
    json += text;
  }
  for (const std::size_t i : order) {
    if (json.back() != '{') json += ',';
    json += described[i];
  }
  json += '}';
  LOCKSTEP_ASSIGN(layout.text, frame(std::move(json), alignment));
  layout.file_bytes += layout.text.size();
  return {};
}

}  // namespace

Result<std::uint64_t> data_start_of(std::span<const std::byte> start, std::uint64_t file_bytes) {
  if (start.size() < kLengthBytes || file_bytes < kLengthBytes)
    return bad_file("the file has " + std::to_string(file_bytes) +
                    " bytes, fewer than a header's 8");
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    return bad_file("the header claims " + std::to_string(length) + " bytes, limit " +
                    std::to_string(kMaxHeaderBytes));
  if (length > file_bytes - kLengthBytes)
    return bad_file("the header claims " + std::to_string(length) + " bytes, the file has " +
                    std::to_string(file_bytes) + "; it is cut short");
  return kLengthBytes + length;
}

Result<Header> parse_header(std::span<const std::byte> start, std::uint64_t file_bytes) {
  Header header;
  LOCKSTEP_ASSIGN(header.data_start, data_start_of(start, file_bytes));
  if (start.size() < header.data_start) return bad_file("only a part of the header was given");
  const auto* const text = reinterpret_cast<const char*>(start.data());
  const std::string_view json(text + kLengthBytes, header.data_start - kLengthBytes);
  if (json.empty() || json.front() != '{') return bad_file("the header does not start with '{'");
  LOCKSTEP_TRY(read_header_json(json, header));
  LOCKSTEP_TRY(check_coverage(header.entries, file_bytes - header.data_start));
  return header;
}

Result<Layout> make_layout(std::span<const TensorInfo> tensors, const Metadata& metadata) {
  Layout layout;
  LOCKSTEP_ASSIGN(layout.source, sorted(tensors, [](const TensorInfo& a, const TensorInfo& b) {
                    const std::size_t size_a = size_of(a.dtype), size_b = size_of(b.dtype);
                    return size_a != size_b ? size_a > size_b : a.name < b.name;
                  }));
  LOCKSTEP_ASSIGN(const auto described, place(tensors, layout));
  std::vector<std::size_t> as_given(tensors.size());
  std::iota(as_given.begin(), as_given.end(), std::size_t{0});
  LOCKSTEP_TRY(write_header(metadata, described, as_given, kDataAlignment, layout));
  return layout;
}

Result<Layout> make_python_layout(std::span<const TensorInfo> tensors, const Metadata& metadata) {
  Layout layout;
  LOCKSTEP_ASSIGN(layout.source, sorted(tensors, [](const TensorInfo& a, const TensorInfo& b) {
                    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
                  }));
  LOCKSTEP_ASSIGN(const auto described, place(tensors, layout));
  LOCKSTEP_TRY(write_header(metadata, described, layout.source, kPythonAlignment, layout));
  return layout;
}

}  // namespace lockstep::checkpoint
