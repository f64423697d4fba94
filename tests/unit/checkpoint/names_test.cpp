#include "checkpoint/names.h"

#include <gtest/gtest.h>

#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {
namespace {

using Names = std::vector<std::string>;

// "own<-given" for each that is matched, "own?" for each that is not, "+given" for what is left.
std::string matched(const Names& own, const Names& given) {
  const Matching matching = match_names(own, given);
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i)
    text += own[i] + (matching.source[i] ? "<-" + given[*matching.source[i]] : "?") + " ";
  for (const std::size_t i : matching.rest) text += "+" + given[i] + " ";
  return text;
}

TEST(Names, EqualOnesAreOne) {
  EXPECT_EQ(matched({"a", "b.c"}, {"b.c", "a"}), "a<-a b.c<-b.c ");
  EXPECT_EQ(matched({"a", "b"}, {"a", "c"}), "a<-a b? +c ");
  EXPECT_EQ(matched({}, {"a"}), "+a ");
  EXPECT_EQ(matched({"a"}, {}), "a? ");
  EXPECT_EQ(matched({"a"}, {"a", "a"}), "a<-a +a ");
}

TEST(Names, WrappersAreLeftOutWhereverTheyAre) {
  for (const char* const prefix :
       {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "module.module."})
    EXPECT_EQ(matched({"l.w", "l.b"}, {std::string(prefix) + "l.w", std::string(prefix) + "l.b"}),
              "l.w<-" + std::string(prefix) + "l.w l.b<-" + prefix + "l.b ");
  EXPECT_EQ(matched({"enc.l.w", "dec.w"}, {"enc._orig_mod.l.w", "dec.module._orig_mod.w"}),
            "enc.l.w<-enc._orig_mod.l.w dec.w<-dec.module._orig_mod.w ");
  EXPECT_EQ(matched({"enc.w", "dec.w"}, {"enc.w", "dec._orig_mod.w"}),
            "enc.w<-enc.w dec.w<-dec._orig_mod.w ");
  // The module's own are wrapped, and the file's are not, or otherwise.
  EXPECT_EQ(matched({"module.w", "module.b"}, {"w", "b"}), "module.w<-w module.b<-b ");
  EXPECT_EQ(matched({"module.w"}, {"_orig_mod.w"}), "module.w<-_orig_mod.w ");
  EXPECT_EQ(matched({"a.module.w"}, {"module.a.w"}), "a.module.w<-module.a.w ");
  // A tensor may be called so; other names are no wrappers.
  EXPECT_EQ(matched({"module"}, {"_orig_mod.module"}), "module<-_orig_mod.module ");
  EXPECT_EQ(matched({"w"}, {"w.module"}), "w? +w.module ");
  EXPECT_EQ(matched({"w"}, {"modules.w", "my_module.w"}), "w? +modules.w +my_module.w ");
}

TEST(Names, EqualOnesWin) {
  EXPECT_EQ(matched({"w"}, {"module.w", "w"}), "w<-w +module.w ");
  EXPECT_EQ(matched({"module.w", "w"}, {"module.w", "w"}), "module.w<-module.w w<-w ");
  EXPECT_EQ(matched({"module.a", "b"}, {"module.a", "module.b"}),
            "module.a<-module.a b<-module.b ");
  // A whole module that is wrapped once more, and has a part of that name.
  EXPECT_EQ(matched({"module.w", "w"}, {"module.module.w", "module.w"}),
            "module.w<-module.module.w w<-module.w ");
}

TEST(Names, WhatCouldBeTwoIsNone) {
  EXPECT_EQ(matched({"a.w"}, {"a.module.w", "a._orig_mod.w"}), "a.w? +a.module.w +a._orig_mod.w ");
  EXPECT_EQ(matched({"a.module.w", "module.a.w"}, {"a._orig_mod.w"}),
            "a.module.w? module.a.w? +a._orig_mod.w ");
}

TEST(Names, AQuotedOneIsItselfInOneLine) {
  EXPECT_EQ(quote("we\u0456ght"), "'we\u0456ght'");
  EXPECT_EQ(quote("caf\xe9 \x1b[31m\n\t"), "'caf\\xe9 \\x1b[31m\\n\\t'");
  const std::string letters(119, 'x');
  EXPECT_EQ(quote(letters + "\u00e9"), "'" + letters + "...'");  // not half of a character
  EXPECT_EQ(quote(letters + "y"), "'" + letters + "y'");
}

TEST(Names, TheNearestAreShown) {
  EXPECT_EQ(nearest_names("head.wieght", Names{"x", "head.weight"}),
            "; the nearest: 'head.weight'");
  EXPECT_EQ(nearest_names("fc.weight", Names{"model.fc.weight", "net.fc.weight", "c.fc.weight"}),
            "; the nearest: 'model.fc.weight' and 'net.fc.weight'");
  EXPECT_EQ(nearest_names("model.fc.weight", Names{"fc.weight"}), "; the nearest: 'fc.weight'");
  EXPECT_EQ(nearest_names("fc.weight", Names{"rnn.cell"}), "");
  EXPECT_EQ(nearest_names("fc.weight", Names{}), "");
  // Whatever a file calls its tensors.
  const std::string long_name(1 << 22, 'x');
  EXPECT_EQ(nearest_names(long_name, Names{long_name + "y"}), "");
  EXPECT_EQ(nearest_names("fc", Names{long_name, "." + long_name}), "");
  EXPECT_EQ(nearest_names("fcs", Names(100000, std::string(150, 'x'))), "");
}

}  // namespace
}  // namespace lockstep::checkpoint
