#include <gtest/gtest.h>

#include "unit/pickle/build.h"

namespace lockstep::pickle::test {
namespace {

std::string error_of(const std::string& pickle, const Limits& limits = {}) {
  const auto document = read_plain(pickle, limits);
  return document.ok() ? "" : document.error().message;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PickleHostile, NothingIsCalledThatIsNotListed) {
  const std::string system =
      pickled(global("os", "system") + unicode("touch /tmp/pwned") + "\x85R");
  EXPECT_EQ(error_of(system),
            "byte 2 of the pickle, GLOBAL: it names 'os.system', which is not on the list of what "
            "data may "
            "name; nothing of it was run; save plain data");
  EXPECT_TRUE(has(error_of("\x80\x04\x8c\x05posix\x8c\x06system\x93."),
                  "byte 17 of the pickle, STACK_GLOBAL: it names 'posix.system'"));
  EXPECT_TRUE(has(error_of(pickled(global("builtins", "eval"))), "'builtins.eval'"));
  EXPECT_TRUE(has(error_of(pickled(global("torch.storage", "_load_from_bytes"))),
                  "'torch.storage._load_from_bytes'"));
  EXPECT_TRUE(has(error_of(pickled(global("a\x1b[31m", "b"))), "'a\\x1b[31m.b'"));
  EXPECT_TRUE(has(error_of(pickled("c" + times("x", 5000) + "\ny\n")), "no end within 200 bytes"));
  EXPECT_TRUE(has(error_of("\x80\x04\x8c\x05posixK\x01\x93."), "a global's name is not a str"));
}

TEST(PickleHostile, OnlyWhatCanBeCalledIs) {
  EXPECT_TRUE(has(error_of(pickled("N)R")), "None cannot be called"));
  EXPECT_TRUE(has(error_of(pickled(global("numpy", "ndarray") + ")R")),
                  "'numpy.ndarray' cannot be called"));
  EXPECT_TRUE(has(error_of(pickled(global("_codecs", "encode") + ")\x81")),
                  "'_codecs.encode' cannot be called"));
  EXPECT_TRUE(
      has(error_of(pickled(global("_codecs", "encode") + "NR")), "arguments are not a tuple"));
  EXPECT_TRUE(has(error_of(pickled(global("_codecs", "encode") + ")R")), "only (str, 'latin1')"));
  EXPECT_TRUE(has(error_of(pickled(global("numpy", "ndarray"))), "stands where a value must be"));
  EXPECT_TRUE(has(error_of(pickled("]}b")), "a list takes no state"));
  EXPECT_TRUE(has(error_of(pickled("}}b")), "a dict takes no state"));
  EXPECT_TRUE(has(error_of(pickled(global("collections", "OrderedDict") + ")RNb")), "are no dict"));
  EXPECT_TRUE(has(error_of(pickled("NQ")), "outside of the pickle"));
}

TEST(PickleHostile, EveryOtherOpcodeIsRefusedByName) {
  for (const char* const pair : {"0POP",
                                 "1POP_MARK",
                                 "2DUP",
                                 "FFLOAT",
                                 "IINT",
                                 "LLONG",
                                 "PPERSID",
                                 "SSTRING",
                                 "VUNICODE",
                                 "dDICT",
                                 "gGET",
                                 "iINST",
                                 "lLIST",
                                 "oOBJ",
                                 "pPUT",
                                 "\x82"
                                 "EXT1",
                                 "\x8f"
                                 "EMPTY_SET",
                                 "\x92NEWOBJ_EX",
                                 "\x97NEXT_BUFFER",
                                 "\xff"
                                 "0xff"}) {
    const std::string text = error_of(pickled("N" + std::string(pair, 1)));
    EXPECT_EQ(text, "byte 3 of the pickle, " + std::string(pair + 1) +
                        ": this opcode is not one that data need, and it is refused");
  }
  EXPECT_TRUE(has(error_of(std::string("\x80\x00N.", 4)), "protocol 0; 2 to 5 are read"));
  EXPECT_TRUE(has(error_of("\x80\x06N."), "protocol 6"));
}

TEST(PickleHostile, StacksThatLackWhatIsTaken) {
  for (const char* const body : {"a", "e", "s", "u", "t", "R", "b", "q\x01", "\x85", "\x86", "\x87",
                                 "\x93", "\x94", "\x81", "Q", "(a", "](a", "N(q\x01", "N(\x85"})
    EXPECT_FALSE(error_of(pickled(body)).empty()) << body;
  EXPECT_TRUE(has(error_of(pickled("")), "STOP leaves 0 values"));
  EXPECT_TRUE(has(error_of(pickled("NN")), "STOP leaves 2 values"));
  EXPECT_TRUE(has(error_of(pickled("N(")), "1 marks"));
  EXPECT_TRUE(has(error_of(pickled("}(Nu")), "a key has no value"));
  EXPECT_TRUE(has(error_of(pickled("]NNs")), "only a dict"));
  EXPECT_TRUE(has(error_of(pickled(")Na")), "only a list can be appended to, not a tuple"));
  EXPECT_TRUE(has(error_of(pickled("h\x07")), "no entry 7"));
}

TEST(PickleHostile, LengthsThatAreNotThere) {
  for (const std::string& body : {"X" + little(0xffffffff, 4), "\x8d" + little(~0ULL, 8),
                                  "\x8e" + little(1ULL << 62, 8), "\x96" + little(1ULL << 40, 8),
                                  "T" + little(0x80000000, 4), "\x8b" + little(0x7fffffff, 4)})
    EXPECT_TRUE(has(error_of(pickled(body + "abc")), "the data end in the middle")) << body;
  EXPECT_TRUE(
      has(error_of("\x80\x04\x95" + little(~0ULL, 8) + "N."), "a frame goes beyond the end"));
  EXPECT_TRUE(has(error_of(pickled("\x8a\x0a" + times("\xff", 10))),
                  "an int of 10 bytes; at most 8 are read"));
}

TEST(PickleHostile, DepthLoopsAndBombs) {
  EXPECT_TRUE(
      has(error_of(pickled(times("]", 500000) + times("a", 499999))), "more than 100 deep"));
  EXPECT_TRUE(has(error_of(pickled("N" + times("\x85", 500000))), "more than 100 deep"));
  // Deep, and then thrown away.
  EXPECT_TRUE(has(error_of(pickled("N" + times("\x85", 500000) + "Nb")), "takes no state"));
  EXPECT_TRUE(has(error_of(pickled("]q\x01h\x01"
                                   "a")),
                  "a list contains itself"));
  EXPECT_TRUE(has(error_of(pickled("}q\x01K\x01(h\x01\x85ts")), "a dict contains itself"));
  EXPECT_TRUE(has(error_of(pickled(global("collections", "OrderedDict") + ")Rq\x01}K\x01h\x01sb")),
                  "contains itself"));
  // A pair of pairs of pairs ...: 2^60 values when written out.
  std::string doubled = "N\x85";
  for (int i = 0; i < 60; ++i) doubled += "q\x01h\x01\x86";
  EXPECT_TRUE(has(error_of(pickled(doubled)), "more than 8000000 values, though few are stored"));
  Limits small;
  small.values = 100;
  EXPECT_TRUE(has(error_of(pickled("(" + times("N", 200) + "t"), small), "more than 100 values"));
  EXPECT_TRUE(has(error_of(pickled(times("(", 200)), small), "more than 100 values"));
  EXPECT_TRUE(has(error_of(pickled("N" + times("\x94", 200)), small), "100 entries in the memo"));
}

TEST(PickleHostile, KeysTextAndArrays) {
  EXPECT_TRUE(
      has(error_of(pickled("}(" + unicode("a") + "N" + unicode("a") + "Nu")), "same key twice"));
  EXPECT_TRUE(
      has(error_of(pickled("}(" + unicode("a") + "N" + old_str("a") + "Nu")), "same key twice"));
  EXPECT_TRUE(has(error_of(pickled("}]Ns")), "a list as a key"));
  EXPECT_TRUE(has(error_of(pickled("}" + number(1) + "Ns")), "a float as a key"));
  for (const char* const bad :
       {"\xff", "\xc0\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\xe0\x80\x80", "\x80"})
    EXPECT_TRUE(has(error_of(pickled(unicode(bad))), "not UTF-8")) << bad;
  EXPECT_EQ(shown(pickled(unicode("\xed\xa0\x80"))),
            "'\xed\xa0\x80'");  // a lone surrogate, as Python writes it
}

TEST(PickleHostile, CutAtEveryByteAndEveryBitFlipped) {
  const std::string whole = pickled("}(" + unicode("a") + "](K\x01" + number(2) + "e" +
                                    old_str("b") + global("collections", "OrderedDict") +
                                    ")Rq\x01(" + unicode("w") + "h\x01\x85u" + "u");
  const std::string fine =
      pickled("}(" + unicode("a") + "](K\x01" + number(2) + "e" + old_str("b") +
              global("collections", "OrderedDict") + ")Rq\x01(" + unicode("w") + "\x89u" + "u");
  EXPECT_TRUE(has(error_of(whole), "contains itself"));
  ASSERT_EQ(error_of(fine), "");
  for (std::size_t cut = 0; cut < fine.size(); ++cut)
    EXPECT_FALSE(error_of(fine.substr(0, cut)).empty()) << cut;
  for (std::size_t bit = 0; bit < 8 * fine.size(); ++bit) {
    std::string flipped = fine;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto document = read_plain(flipped);
    EXPECT_TRUE(document.ok() || has(document.error().message, "byte ")) << bit;
  }
}

}  // namespace
}  // namespace lockstep::pickle::test
