#include <cstdlib>

#include "base/errors.h"
#include "checkpoint/pt/forms.h"
#include "checkpoint/pt/zip_reader.h"

namespace lockstep::checkpoint::pt {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

// The archive's only folder, from the only FOLDER/data.pkl.
Result<std::string> folder_of(const ZipReader& zip) {
  std::string folder;
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.substr(slash) != kPickleName) continue;
    if (!folder.empty()) return bad_data("there are two data.pkl in the archive");
    folder = entry.name.substr(0, slash + 1);
  }
  if (folder.empty())
    return bad_data(
        "the archive has no data.pkl and is not of torch.save; is it some other zip file?");
  return folder;
}

Status check_kind(ZipReader& zip, const std::string& folder) {
  const ZipEntry* const version = zip.find(folder + "version");
  if (version == nullptr)
    return bad_data("the archive has no version: is it cut, or not of torch.save?");
  LOCKSTEP_ASSIGN(const std::string number, zip.read_text(*version, 16));
  if (number.find_first_not_of("0123456789\n") != std::string::npos || number.size() > 3 ||
      std::atoi(number.c_str()) > 10)
    return bad_data("the archive's version is " + quote(number) + "; up to 10 are read");
  const ZipEntry* const order = zip.find(folder + "byteorder");
  if (order == nullptr) return {};  // before torch 2.1; little
  LOCKSTEP_ASSIGN(const std::string text, zip.read_text(*order, 16));
  if (text != "little")
    return bad_data("its byte order is " + quote(text) + "; save it on a little-endian machine");
  return {};
}

Status read_storages(ZipReader& zip, const std::string& folder, const StorageTable& storages) {
  for (const auto& [key, entry] : storages.entries()) {
    if (!entry.wanted()) continue;
    const ZipEntry* const data = zip.find(folder + "data/" + key);
    if (data == nullptr) return bad_data("storage " + quote(key) + " is not in the archive");
    if (data->size != entry.storage->size)
      return bad_data("storage " + quote(key) + " has " + std::to_string(data->size) +
                      " bytes in the archive, and its tensors say " +
                      std::to_string(entry.storage->size));
    LOCKSTEP_ASSIGN(const auto room, room_for(*entry.storage));
    LOCKSTEP_TRY(zip.read(*data, room));
  }
  return {};
}

}  // namespace

Result<pickle::Value> parse_zip(ReadableFile& file, const ReadLimits& limits) {
  LOCKSTEP_ASSIGN(ZipReader zip, ZipReader::open(file, limits.inflated_bytes));
  LOCKSTEP_ASSIGN(const std::string folder, folder_of(zip));
  LOCKSTEP_TRY(check_kind(zip, folder));
  LOCKSTEP_ASSIGN(const std::string text,
                  zip.read_text(*zip.find(folder + "data.pkl"), limits.pickle_bytes));
  StorageTable storages;
  LOCKSTEP_ASSIGN(pickle::Document document,
                  parse_object(std::as_bytes(std::span(text)), storages, limits.pickle));
  LOCKSTEP_TRY(read_storages(zip, folder, storages));
  return std::move(document.root);
}

}  // namespace lockstep::checkpoint::pt
