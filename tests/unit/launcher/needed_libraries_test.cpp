// Lockstep's note in a library that the program needs, wherever the dynamic loader would find that.
#include "launcher/program/needed_libraries.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "support/elf_writer.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

using namespace std::string_literals;
using test::ElfText;
using test::write_elf;

class NeededLibraries : public testing::Test {
 protected:
  NeededLibraries() {
    for (const char* name : {"bin", "lib", "lib/sub", "sys", "other"})
      std::filesystem::create_directories(folder_ / name);
    places_.cache = folder_ / "ld.so.cache";
    places_.folders = {folder_ / "sys"};
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void add(const std::string& name, const ElfText& text) const { write_elf(at(name), text); }
  std::optional<std::uint32_t> linked(const std::string& name = "bin/app") const {
    return linked_version(at(name), places_, coord::kNote);
  }
  // The loader's cache with one entry.
  void cache(const std::string& name, const std::vector<std::string>& paths) const {
    std::string texts, entries;
    const std::size_t texts_at = 48 + 24 * paths.size();
    const auto word = [](std::size_t value) {
      const auto number = static_cast<std::uint32_t>(value);
      return std::string(reinterpret_cast<const char*>(&number), sizeof number);
    };
    for (const std::string& path : paths) {
      const std::size_t key = texts_at + texts.size();
      texts += name + '\0' + path + '\0';
      entries += word(0x303) + word(key) + word(key + name.size() + 1) + std::string(12, '\0');
    }
    std::ofstream(places_.cache, std::ios::binary)
        << "glibc-ld.so.cache1.1" << word(paths.size()) << word(texts.size())
        << std::string(20, '\0') << entries << texts;
  }

  test::TempFolder folder_;
  LoaderPlaces places_;
};

TEST_F(NeededLibraries, TheProgramsOwnNoteComesFirst) {
  add("bin/app", {.needed = {"libtrain.so"}, .runpath = at("lib"), .version = 7});
  add("lib/libtrain.so", {.version = 8});
  EXPECT_EQ(linked(), 7U);
}

TEST_F(NeededLibraries, ByRunpathAndRpathRelativeToTheFile) {
  add("lib/libtrain.so", {.version = 8});
  for (const std::string& path :
       {std::string("$ORIGIN/../lib"), "/nowhere:${ORIGIN}/../lib"s, "/nowhere::" + at("lib")}) {
    add("bin/app", {.needed = {"libz.so", "libtrain.so"}, .runpath = path});
    EXPECT_EQ(linked(), 8U) << path;
    add("bin/app", {.needed = {"libtrain.so"}, .rpath = path});
    EXPECT_EQ(linked(), 8U) << path;
  }
  add("bin/app", {.needed = {"libtrain.so"}});
  EXPECT_FALSE(linked());
}

TEST_F(NeededLibraries, AProgramThroughALinkIsWhereItReallyIs) {
  add("bin/app", {.needed = {"libtrain.so"}, .runpath = "$ORIGIN/../lib"});
  add("lib/libtrain.so", {.version = 8});
  std::filesystem::create_symlink(at("bin/app"), at("other/app"));
  EXPECT_EQ(linked("other/app"), 8U);
}

TEST_F(NeededLibraries, WhatALibraryNeedsCountsToo) {
  add("bin/app", {.needed = {"liba.so"}, .runpath = "$ORIGIN/../lib"});
  add("lib/liba.so", {.needed = {"libb.so"}, .runpath = "$ORIGIN/sub"});
  add("lib/sub/libb.so", {.needed = {"liba.so", "libb.so", "libc.so"}, .version = 9});
  EXPECT_EQ(linked(), 9U);
  // RUNPATH is that of the file alone, RPATH also of those that it brings.
  add("lib/liba.so", {.needed = {"libb.so"}});
  std::filesystem::rename(at("lib/sub/libb.so"), at("lib/libb.so"));
  EXPECT_FALSE(linked());
  add("bin/app", {.needed = {"liba.so"}, .rpath = "$ORIGIN/../lib"});
  EXPECT_EQ(linked(), 9U);
}

TEST_F(NeededLibraries, TheEnvironmentComesBeforeRunpathAndBehindRpath) {
  add("lib/libtrain.so", {.version = 1});
  add("other/libtrain.so", {.version = 2});
  places_.library_path = "/nowhere;" + at("other");
  add("bin/app", {.needed = {"libtrain.so"}, .runpath = at("lib")});
  EXPECT_EQ(linked(), 2U);
  add("bin/app", {.needed = {"libtrain.so"}, .rpath = at("lib")});
  EXPECT_EQ(linked(), 1U);
  add("bin/app", {.needed = {"libtrain.so"}, .rpath = at("lib"), .runpath = at("nowhere")});
  EXPECT_EQ(linked(), 2U) << "with a RUNPATH, RPATH does not count";
}

TEST_F(NeededLibraries, TheLoadersCacheAndThenTheSystemsFolders) {
  add("bin/app", {.needed = {"libtrain.so"}});
  add("sys/libtrain.so", {.version = 3});
  EXPECT_EQ(linked(), 3U);
  add("other/libtrain-1.so", {.version = 4});
  cache("libtrain.so", {at("gone.so"), at("other/libtrain-1.so")});
  EXPECT_EQ(linked(), 4U);
  cache("libtrain.so.1", {at("other/libtrain-1.so")});
  EXPECT_EQ(linked(), 3U);
}

TEST_F(NeededLibraries, PathsAreTakenAsTheyAre) {
  add("other/libtrain.so", {.version = 5});
  add("bin/app", {.needed = {at("other/libtrain.so")}});
  EXPECT_EQ(linked(), 5U);
  add("bin/app", {.needed = {"$ORIGIN/../other/libtrain.so"}});
  EXPECT_EQ(linked(), 5U);
}

TEST_F(NeededLibraries, OfAnotherMachineIsNotIt) {
  add("bin/app", {.needed = {"libtrain.so"}, .runpath = at("lib") + ":" + at("other")});
  add("lib/libtrain.so", {.version = 1, .machine = EM_386});
  add("other/libtrain.so", {.version = 2});
  EXPECT_EQ(linked(), 2U);
}

TEST_F(NeededLibraries, ACircleEndsAndDamageSaysNothing) {
  add("bin/app", {.needed = {"liba.so"}, .runpath = at("lib")});
  add("lib/liba.so", {.needed = {"liba.so", "libb.so"}, .runpath = at("lib")});
  add("lib/libb.so", {.needed = {"liba.so"}, .runpath = at("lib")});
  EXPECT_FALSE(linked());
  const std::string whole =
      test::elf_bytes({.needed = {"liba.so"}, .runpath = at("lib"), .version = 6});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(at("lib/libb.so"), std::ios::binary) << whole.substr(0, size);
    EXPECT_FALSE(linked()) << size;
  }
}

TEST_F(NeededLibraries, ThisTestsOwnAreFound) {
  int files = 0;
  visit_needed("/proc/self/exe", LoaderPlaces::of_this_process(), [&](const coord::ElfFile&) {
    ++files;
    return false;
  });
  EXPECT_GE(files, 3) << "itself, libstdc++, libc";
}

}  // namespace
}  // namespace lockstep::launcher
