#include "launcher/program/needed_libraries.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "coord/note_file.h"

namespace lockstep::launcher {
namespace {

using coord::ElfFile;

constexpr std::size_t kMostFiles = 1024;
constexpr std::size_t kMostFolders = 256;  // of one list
constexpr std::uintmax_t kMostCacheBytes = std::uintmax_t{64} << 20;

// `$ORIGIN`, `${ORIGIN}`: the folder of the file that says so; `$LIB`, `$PLATFORM` likewise.
std::string with_tokens(std::string text, const std::string& origin) {
#if defined(__x86_64__)
  constexpr const char *kLib = "lib/x86_64-linux-gnu", *kPlatform = "x86_64";
#else
  constexpr const char *kLib = "lib/aarch64-linux-gnu", *kPlatform = "aarch64";
#endif
  const std::array<std::pair<std::string, std::string>, 3> tokens{
      {{"ORIGIN", origin}, {"LIB", kLib}, {"PLATFORM", kPlatform}}};
  for (const auto& [token, value] : tokens)
    for (const std::string& form : {"${" + token + "}", "$" + token})
      for (std::size_t at = 0; (at = text.find(form, at)) != std::string::npos; at += value.size())
        text.replace(at, form.size(), value);
  return text;
}

std::vector<std::string> folders_in(const std::string& list, const std::string& origin,
                                    const char* separators) {
  std::vector<std::string> folders;
  for (std::size_t at = 0; !list.empty() && at <= list.size() && folders.size() < kMostFolders;) {
    const std::size_t end = std::min(list.find_first_of(separators, at), list.size());
    folders.push_back(with_tokens(list.substr(at, end - at), origin));
    if (folders.back().empty()) folders.back() = ".";
    at = end + 1;
  }
  return folders;
}

// A file that the loader has; `loader` is whose need brought it.
struct Loaded {
  std::string origin;
  ElfFile::Needs needs;
  const Loaded* loader = nullptr;
};

class Search {
 public:
  explicit Search(const LoaderPlaces& places) : places_(places) {}

  std::optional<std::pair<std::string, ElfFile>> find(const std::string& name, const Loaded& by) {
    if (name.find('/') != std::string::npos) return open(with_tokens(name, by.origin));
    if (by.needs.runpath.empty())
      for (const Loaded* each = &by; each != nullptr; each = each->loader)
        if (each->needs.runpath.empty())
          if (auto found = below(folders_in(each->needs.rpath, each->origin, ":"), name))
            return found;
    if (auto found = below(folders_in(places_.library_path, by.origin, ":;"), name)) return found;
    if (auto found = below(folders_in(by.needs.runpath, by.origin, ":"), name)) return found;
    for (const std::string& path : in_loader_cache(cache(), name))
      if (auto found = open(path)) return found;
    return below(places_.folders, name);
  }

 private:
  static std::optional<std::pair<std::string, ElfFile>> open(const std::string& path) {
    auto file = ElfFile::open(path);
    if (!file) return std::nullopt;
    return std::pair(path, *std::move(file));
  }
  static std::optional<std::pair<std::string, ElfFile>> below(
      const std::vector<std::string>& folders, const std::string& name) {
    for (const std::string& folder : folders)
      if (auto found = open(folder + "/" + name)) return found;
    return std::nullopt;
  }
  const std::string& cache() {
    std::error_code error;
    if (!cache_) {
      cache_.emplace();
      const std::uintmax_t size = std::filesystem::file_size(places_.cache, error);
      if (!error && size <= kMostCacheBytes) {
        cache_->resize(size);
        std::ifstream file(places_.cache, std::ios::binary);
        file.read(cache_->data(), static_cast<std::streamsize>(size));
        cache_->resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
      }
    }
    return *cache_;
  }

  const LoaderPlaces& places_;
  std::optional<std::string> cache_;
};

// As the kernel has it: links in the program's own path are followed, those in a library's are not.
std::string folder_of_program(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  return error ? "." : whole.parent_path().string();
}

std::string folder_of(const std::string& library) {
  const std::size_t slash = library.rfind('/');
  return slash == std::string::npos ? "." : library.substr(0, std::max<std::size_t>(slash, 1));
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

std::string_view text_in(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) return {};
  const std::string_view rest = bytes.substr(at);
  const std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

LoaderPlaces LoaderPlaces::of_this_process() {
  LoaderPlaces places;
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) places.library_path = path;
  for (const char* root : {"", "/usr"})
    for (const char* folder : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"})
      places.folders.push_back(std::string(root) + folder);
  return places;
}

// The format since glibc 2.2: a head of 48 bytes; entries of 24 bytes, whose second and third words
// are where name and path are; texts. An older one may stand before it.
std::vector<std::string> in_loader_cache(std::string_view bytes, std::string_view name) {
  constexpr std::string_view kOld = "ld.so-1.7.0", kNew = "glibc-ld.so.cache1.1";
  constexpr std::size_t kOldHead = 16, kOldEntry = 12, kHead = 48, kEntry = 24;
  if (bytes.starts_with(kOld) && bytes.size() >= kOldHead) {
    const std::size_t size = kOldHead + std::size_t{word_at(bytes, 12)} * kOldEntry;
    bytes.remove_prefix(std::min((size + 7) / 8 * 8, bytes.size()));
  }
  if (!bytes.starts_with(kNew) || bytes.size() < kHead) return {};
  const std::size_t count =
      std::min<std::size_t>(word_at(bytes, kNew.size()), (bytes.size() - kHead) / kEntry);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = kHead + i * kEntry;
    if (text_in(bytes, word_at(bytes, entry + 4)) != name) continue;
    paths.emplace_back(text_in(bytes, word_at(bytes, entry + 8)));
  }
  return paths;
}

void visit_needed(const std::string& file, const LoaderPlaces& places,
                  const std::function<bool(const ElfFile&)>& enough) {
  const auto program = ElfFile::open(file);
  if (!program || enough(*program)) return;
  Search search(places);
  std::deque<Loaded> loaded;  // its elements stay where they are
  loaded.push_back({folder_of_program(file), program->needs(), nullptr});
  std::set<std::string> known;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    for (const std::string& name : loaded[i].needs.libraries) {
      if (loaded.size() >= kMostFiles || !known.insert(name).second) continue;
      const auto found = search.find(name, loaded[i]);
      if (!found) continue;
      if (enough(found->second)) return;
      loaded.push_back({folder_of(found->first), found->second.needs(), &loaded[i]});
    }
  }
}

std::optional<std::uint32_t> linked_version(const std::string& file, const LoaderPlaces& places,
                                            const coord::Note& like) {
  std::optional<std::uint32_t> version;
  visit_needed(file, places, [&](const ElfFile& each) {
    version = coord::noted_version(each, like);
    return version.has_value();
  });
  return version;
}

}  // namespace lockstep::launcher
