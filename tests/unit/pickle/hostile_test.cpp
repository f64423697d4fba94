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
  EXPECT_TRUE(has(error_of(pickled(global("os", "\x1b[31m"))), "'os.\\x1b[31m'"));
  EXPECT_TRUE(has(error_of(pickled("c" + times("x", 5000) + "\ny\n")), "no end within 200 bytes"));
  EXPECT_TRUE(has(error_of("\x80\x04\x8c\x05posixK\x01\x93."), "a global's name is not a str"));
  EXPECT_TRUE(has(error_of("\x80\x04\x8c\x03my\n\x8c\x01"
                           "A\x93."),
                  "a global's name is no name"));
}

// os and theirs whole, of builtins what runs something; by both Pythons' names, in both opcodes,
// and wherever in the file they are.
TEST(PickleHostile, NamesThatRunThingsRefuseTheFile) {
  for (const char* const name :
       {"os.system", "os.path.join", "posix.popen", "nt.system", "sys.exit", "subprocess.Popen",
        "runpy.run_path", "importlib.import_module", "pty.spawn", "builtins.exec",
        "builtins.getattr", "builtins.open", "builtins.__import__", "builtins.compile",
        "__builtin__.eval", "__builtin__.execfile", "pickle.loads", "marshal.loads",
        "ctypes.CDLL"}) {
    const std::string text = name;
    const std::size_t dot = text.rfind('.');
    const std::string module = text.substr(0, dot), last = text.substr(dot + 1);
    const std::string unknown = global("my.module", "Class");
    for (const std::string& body :
         {global(module, last), "}(" + unicode("a") + global(module, last) + "u",
          unknown + ")R" + global(module, last) + "b", unknown + "(" + global(module, last) + "e",
          unknown + global(module, last) + "\x85R", unicode(module) + unicode(last) + "\x93"})
      EXPECT_TRUE(has(error_of("\x80\x04" + body + "."), "'" + text + "'")) << text;
  }
  EXPECT_TRUE(has(error_of("\x80\x04" + unicode("builtins") + unicode("eval.__call__") + "\x93."),
                  "'builtins.eval.__call__'"));
  for (const char* const module : {"oslo", "system", "posixpath", "code", "my.os"})
    EXPECT_EQ(error_of(pickled(global(module, "system"))), "") << module;
  EXPECT_TRUE(has(error_of(pickled(global("__builtin__", "getattr"))), "save its value"));
}

TEST(PickleHostile, OnlyWhatCanBeCalledIs) {
  EXPECT_TRUE(has(error_of(pickled("N)R")), "None cannot be called"));
  EXPECT_TRUE(
      has(error_of(pickled(global("_codecs", "encode") + "NR")), "arguments are not a tuple"));
  EXPECT_TRUE(has(error_of(pickled(global("my", "Class") + "NR")), "arguments are not a tuple"));
  EXPECT_TRUE(has(error_of(pickled(global("_codecs", "encode") + ")R")), "only (str, 'latin1')"));
  EXPECT_TRUE(
      has(error_of(pickled(global("builtins", "set") + int1(3) + "\x85R")), "takes a list"));
  EXPECT_TRUE(
      has(error_of(pickled(global("collections", "Counter") + int1(3) + "\x85R")), "a dict"));
  EXPECT_TRUE(has(error_of(pickled("]}b")), "a list takes no state"));
  EXPECT_TRUE(has(error_of(pickled("}}b")), "a dict takes no state"));
  EXPECT_TRUE(has(error_of(pickled(global("collections", "OrderedDict") + ")RNb")), "are no dict"));
  EXPECT_TRUE(has(error_of(pickled("NQ")), "outside of the pickle"));
}

// What is dropped is read, counted and bounded all the same.
TEST(PickleHostile, LimitsHoldForWhatIsDropped) {
  const std::string leaf = global("my", "Class") + ")R";
  const std::string deep = "N" + times("\x85", 500000);
  std::string doubled = "N\x85";
  for (int i = 0; i < 60; ++i) doubled += "q\x01h\x01\x86";
  for (const std::string& bomb : {deep, doubled}) {
    const std::string says = bomb == deep ? "more than 100 deep" : "written out it has more than";
    for (const std::string& body :
         {leaf + bomb + "b", leaf + "(" + bomb + "e", leaf + bomb + "a", leaf + "(" + bomb + "Nu",
          leaf + "N" + bomb + "s", leaf + "(" + bomb + "\x90", global("my", "f") + bomb + "\x85R",
          global("my", "f") + bomb + "\x81", global("my", "f") + ")" + bomb + "\x92",
          "N" + bomb + "0", "N(" + bomb + "1", "\x8f" + bomb + "\x85\x85" + "0"})
      EXPECT_TRUE(has(error_of(pickled(body)), says)) << body.substr(0, 40);
  }
  Limits small;
  small.values = 100;
  EXPECT_TRUE(has(error_of(pickled(leaf + "(" + times("N", 200) + "e"), small), "than 100 values"));
  // Copies of one list, a few bytes each.
  std::string copies = "](" + times("N", 40) + "eq\x01";
  for (int i = 0; i < 5; ++i) copies += global("builtins", "set") + "h\x01\x85R0";
  EXPECT_TRUE(has(error_of(pickled(copies), small), "than 100 values"));
  copies = "}(" + unicode("a") + times("N", 3) + "uq\x01";
  for (int i = 0; i < 12; ++i) copies += global("__torch__", "M") + ")\x81h\x01" + "b0";
  EXPECT_TRUE(has(error_of(pickled(copies), small), "than 100 values"));
}

// A text that is named again and again, and copied each time.
TEST(PickleHostile, CallsMakeNoMoreBytesThanAFewTimesTheFiles) {
  const std::string text = unicode(times("x", 1 << 20)) + "q\x01" + unicode("latin1") + "q\x02";
  const std::string encode = global("_codecs", "encode") + "h\x01h\x02\x86R0";
  EXPECT_EQ(error_of(pickled(text + times(encode, 4) + "\x86")), "");
  EXPECT_TRUE(has(error_of(pickled(text + times(encode, 1000) + "\x86")), "4 times its own bytes"));
  const std::string type =
      global("numpy", "dtype") + unicode("i2") + "\x85R(" + int1(3) + unicode(">") + "NNNtb";
  const std::string array = global("numpy._core.multiarray", "_reconstruct") +
                            global("numpy", "ndarray") + ")" + old_str("b") + "\x87R(" + int1(1) +
                            int4(1 << 19) + "\x85" + type + "\x89h\x01tb0";
  EXPECT_EQ(error_of(pickled(text + times(array, 4) + "\x86")), "");
  EXPECT_TRUE(has(error_of(pickled(text + times(array, 1000) + "\x86")), "4 times its own bytes"));
}

TEST(PickleHostile, EveryOtherOpcodeIsRefusedByName) {
  for (const char* const pair : {"2DUP", "FFLOAT", "IINT", "LLONG", "PPERSID", "SSTRING",
                                 "VUNICODE", "dDICT", "gGET", "iINST", "lLIST", "oOBJ", "pPUT",
                                 "\x82"
                                 "EXT1",
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
}

TEST(PickleHostile, DepthLoopsAndBombs) {
  EXPECT_TRUE(
      has(error_of(pickled(times("]", 500000) + times("a", 499999))), "more than 100 deep"));
  EXPECT_TRUE(has(error_of(pickled("N" + times("\x85", 500000))), "more than 100 deep"));
  // Deep, and then thrown away.
  EXPECT_TRUE(has(error_of(pickled("N" + times("\x85", 500000) + "Nb")), "takes no state"));
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
  EXPECT_TRUE(has(error_of(pickled("}(" + number(1) + "N" + number(1) + "Nu")), "same key twice"));
  for (const char* const key : {"]", "}", "\x8f", "]\x85", ")]\x86\x85"})
    EXPECT_TRUE(has(error_of(pickled("}" + std::string(key) + "Ns")), "which Python cannot hash"))
        << key;
  for (const char* const bad :
       {"\xff", "\xc0\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\xe0\x80\x80", "\x80"})
    EXPECT_TRUE(has(error_of(pickled(unicode(bad))), "not UTF-8")) << bad;
  EXPECT_EQ(shown(pickled(unicode("\xed\xa0\x80"))),
            "'\xed\xa0\x80'");  // a lone surrogate, as Python writes it
}

TEST(PickleHostile, CutAtEveryByteAndEveryBitFlipped) {
  const std::string fine = pickled(
      "}(" + unicode("a") + "](K\x01" + number(2) + "e" + old_str("b") +
      global("collections", "OrderedDict") + ")Rq\x01(" + unicode("w") + "\x89u" + unicode("c") +
      global("my", "Class") + ")\x81}(" + unicode("d") + "\x8f(K\x03\x90ub" + "u");
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
