#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hash.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFiles = 64;

Error bad_manifest(const std::string& what) { return {ErrorKind::kBadData, "manifest: " + what}; }

std::string hex64(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::optional<std::uint64_t> from_hex64(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || code != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string seal_of(std::string_view body) {
  return ",\n \"xxh3\": \"" + hex64(xxh3(std::as_bytes(std::span(body)))) + "\"\n}\n";
}

bool plain_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 200 && name.front() != '.' && name != kManifestName &&
         std::ranges::all_of(name, allowed);
}

bool is_plain_text(const std::string& text) {
  return text.size() <= 256 &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Reads fields one by one; the first that is missing or of the wrong type is remembered.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) fail("an object");
  }

  std::uint64_t number(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number_unsigned()) return value->get<std::uint64_t>();
    return fail(key), 0;
  }

  std::string text(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    return fail(key), "";
  }

  const Json& object(const char* key) {
    static const Json empty = Json::object();
    const Json* value = find(key);
    if (value != nullptr && value->is_object()) return *value;
    return fail(key), empty;
  }

  const Json& array(const char* key) {
    static const Json empty = Json::array();
    const Json* value = find(key);
    if (value != nullptr && value->is_array()) return *value;
    return fail(key), empty;
  }

  const std::string& missing() const { return missing_; }

 private:
  const Json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void fail(const char* key) {
    if (missing_.empty()) missing_ = key;
  }

  const Json& object_;
  std::string missing_;
};

Result<std::vector<FileEntry>> read_files(const Json& object) {
  std::vector<FileEntry> files;
  for (const auto& [name, value] : object.items()) {
    Fields fields(value);
    FileEntry entry{name, fields.number("size"), 0};
    const auto hash = from_hex64(fields.text("xxh3"));
    if (!plain_name(name)) return bad_manifest("file name " + quote(name) + " is not allowed");
    if (!fields.missing().empty() || !hash)
      return bad_manifest("file " + quote(name) + ": wrong fields");
    entry.xxh3 = *hash;
    if (files.size() == kMaxFiles) return bad_manifest("more than 64 files");
    files.push_back(std::move(entry));
  }
  if (!std::ranges::is_sorted(files, {}, &FileEntry::name))
    return bad_manifest("files are not sorted");
  return files;
}

Result<std::vector<ModuleEntry>> read_modules(const Json& array) {
  std::vector<ModuleEntry> modules;
  for (const Json& value : array) {
    Fields fields(value);
    const ModuleEntry entry{fields.text("name"), fields.text("prefix"), fields.number("tensors")};
    if (!fields.missing().empty()) return bad_manifest("a module has wrong fields");
    if (std::ranges::count(modules, entry.name, &ModuleEntry::name) != 0)
      return bad_manifest("two modules have the name " + quote(entry.name));
    modules.push_back(entry);
  }
  if (modules.empty()) return bad_manifest("it has no modules");
  return modules;
}

Result<Manifest> read_fields(const Json& document) {
  Fields fields(document);
  Manifest m;
  m.version = fields.number("version");
  if (fields.text("format") != "lockstep-checkpoint")
    return bad_manifest("this is no checkpoint's manifest");
  if (fields.missing().empty() && !m.readable()) return m;
  m.generation = fields.number("generation");
  const std::uint64_t v = fields.number("virtual_workers");
  Fields cursor(fields.object("cursor"));
  m.cursor = {cursor.number("txn"), cursor.number("epoch"), cursor.number("step")};
  m.run_identity = fields.text("run_identity");
  m.weights_sha256 = fields.text("weights_sha256");
  if (m.version != kWithoutModules) {
    LOCKSTEP_ASSIGN(m.modules, read_modules(fields.array("modules")));
  }
  LOCKSTEP_ASSIGN(m.files, read_files(fields.object("files")));
  const std::string& missing = fields.missing().empty() ? cursor.missing() : fields.missing();
  if (!missing.empty()) return bad_manifest("'" + missing + "' is missing or of the wrong type");
  m.virtual_workers = static_cast<std::uint32_t>(v);
  if (m.virtual_workers != v) return bad_manifest("virtual_workers is " + std::to_string(v));
  if (!is_plain_text(m.run_identity) || !is_plain_text(m.weights_sha256))
    return bad_manifest("text not printable");
  return m;
}

}  // namespace

std::string seal(const std::string& body) { return body + seal_of(body); }

void Manifest::set_modules(std::vector<ModuleEntry> entries) {
  modules = std::move(entries);
  version = modules.empty() ? kWithoutModules : kFormatVersion;
}

std::string to_json(const Manifest& m) {
  Json files = Json::object();
  for (const FileEntry& file : m.files)
    files[file.name] = {{"size", file.size}, {"xxh3", hex64(file.xxh3)}};
  Json document = {
      {"format", "lockstep-checkpoint"},
      {"version", m.version},
      {"generation", m.generation},
      {"virtual_workers", m.virtual_workers},
      {"cursor", {{"txn", m.cursor.txn}, {"epoch", m.cursor.epoch}, {"step", m.cursor.step}}},
      {"run_identity", m.run_identity},
      {"weights_sha256", m.weights_sha256},
  };
  for (const ModuleEntry& module : m.modules)
    document["modules"].push_back(
        {{"name", module.name}, {"prefix", module.prefix}, {"tensors", module.tensors}});
  document["files"] = std::move(files);
  std::string body = document.dump(1, ' ', true, Json::error_handler_t::replace);
  body.resize(body.size() - 2);  // "\n}"
  return seal(body);
}

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes) return bad_manifest("larger than 1 MiB");
  const std::size_t tail = seal_of("").size();
  if (text.size() < tail) return bad_manifest("cut short");
  const std::string_view body = text.substr(0, text.size() - tail);
  if (text.substr(body.size()) != seal_of(body)) return bad_manifest("its own hash does not match");
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return bad_manifest("not JSON");
  LOCKSTEP_ASSIGN(Manifest manifest, read_fields(document));
  // Duplicate and unknown keys, and any other way to write the same, end here.
  if (manifest.readable() && to_json(manifest) != text)
    return bad_manifest("not in the form in which manifests are written");
  return manifest;
}

}  // namespace lockstep::checkpoint
