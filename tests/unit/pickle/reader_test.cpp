#include "pickle/reader.h"

#include <gtest/gtest.h>

#include "unit/pickle/build.h"

namespace lockstep::pickle::test {
namespace {

TEST(PickleReader, EveryKindOfPlainValue) {
  EXPECT_EQ(shown(pickled("N")), "None");
  EXPECT_EQ(shown(pickled("\x88\x89\x86")), "(True, False)");
  EXPECT_EQ(shown(pickled(int1(255))), "255");
  EXPECT_EQ(shown(pickled(std::string("M\x00\x0c", 3))), "3072");
  EXPECT_EQ(shown(pickled(int4(-7))), "-7");
  EXPECT_EQ(shown(pickled(std::string("\x8a\x00", 2))), "0");
  EXPECT_EQ(shown(pickled("\x8a\x01\xff")), "-1");
  EXPECT_EQ(shown(pickled("\x8a\x08" + little(0x7fffffffffffffff, 8))), "9223372036854775807");
  EXPECT_EQ(shown(pickled("\x8b" + little(5, 4) + little(1ULL << 39, 5))), "-549755813888");
  EXPECT_EQ(shown(pickled(number(0.1))), "0.10000000000000001f");
  EXPECT_EQ(shown(pickled(number(-HUGE_VAL))), "-inff");
  EXPECT_EQ(shown(pickled(unicode("a\u00e9\U0001f600"))), "'a\u00e9\U0001f600'");
  EXPECT_EQ(shown(pickled(old_str("data"))), "b'data'");
  EXPECT_EQ(shown(pickled("T" + little(3, 4) + "abc")), "b'abc'");
  EXPECT_EQ(shown(pickled("(]q\x01)}t")), "([], (), {})");
  EXPECT_EQ(shown(pickled("](K\x01K\x02"
                          "e" +
                          int1(3) + "a")),
            "[1, 2, 3]");
  EXPECT_EQ(shown(pickled("}(" + unicode("a") + "K\x01" + int1(2) + "Nu" + old_str("c") + "\x88s")),
            "{'a': 1, 2: None, b'c': True}");
}

TEST(PickleReader, ProtocolsThreeToFive) {
  const std::string framed = "\x80\x04\x95" + little(11, 8);
  EXPECT_EQ(shown(framed + "\x8c\x02hi\x94\x8c\x01x\x94\x86."), "('hi', 'x')");
  EXPECT_EQ(shown("\x80\x03"
                  "C\x02hi."),
            "b'hi'");
  EXPECT_EQ(shown("\x80\x03"
                  "B" +
                  little(2, 4) + "hi."),
            "b'hi'");
  EXPECT_EQ(shown("\x80\x05\x8e" + little(2, 8) + "hi."), "b'hi'");
  EXPECT_EQ(shown("\x80\x05\x96" + little(2, 8) + "hi."), "b'hi'");
  EXPECT_EQ(shown("\x80\x04\x8d" + little(2, 8) + "hi."), "'hi'");
  EXPECT_EQ(shown("\x80\x04\x8c\x0b"
                  "collections\x8c\x0bOrderedDict\x93)R."),
            "Ordered{}");
}

TEST(PickleReader, TheMemoSharesAsPythonDoes) {
  const auto document = read_plain(
      pickled("]q\x05"
              "r" +
              little(70000, 4) + "(h\x05j" + little(70000, 4) + "t" + "h\x05" + int1(9) + "a\x87"));
  ASSERT_TRUE(document.ok()) << document.error().message;
  EXPECT_EQ(show(document->root), "([9], ([9], [9]), [9])");
}

TEST(PickleReader, OrderedDictsOfBothPythons) {
  const std::string ordered = global("collections", "OrderedDict");
  EXPECT_EQ(
      shown(pickled(ordered + ")R(" + unicode("w") + "K\x01u}" + unicode("_metadata") + "}sb")),
      "Ordered{'w': 1}+{'_metadata': {}}");
  EXPECT_EQ(shown(pickled(ordered + "](](" + old_str("w") +
                          "K\x01"
                          "e](" +
                          old_str("b") +
                          "K\x02"
                          "ee\x85R")),
            "Ordered{b'w': 1, b'b': 2}");
  EXPECT_EQ(shown(pickled(ordered + ")\x81")), "Ordered{}");
}

TEST(PickleReader, BytesOfProtocolTwo) {
  EXPECT_EQ(shown(pickled(global("_codecs", "encode") + unicode("x\u00ff") + unicode("latin1") +
                          "\x86R")),
            "b'x\xff'");
  EXPECT_EQ(shown(pickled(global("__builtin__", "bytes") + ")R")), "b''");
  EXPECT_EQ(
      shown(pickled(global("_codecs", "encode") + unicode("\u0100") + unicode("latin1") + "\x86R")),
      "error: byte 37 of the pickle, REDUCE: _codecs.encode: a code point above 255");
  EXPECT_NE(shown(pickled(global("_codecs", "encode") + unicode("x") + unicode("rot13") + "\x86R"))
                .find("only (str, 'latin1')"),
            std::string::npos);
}

std::string array_of(const std::string& numpy, const std::string& dtype, const std::string& order,
                     const std::string& shape, const std::string& data) {
  return global(numpy + ".multiarray", "_reconstruct") + global("numpy", "ndarray") + int1(0) +
         "\x85" + old_str("b") + "\x87R(" + int1(1) + shape + global("numpy", "dtype") +
         old_str(dtype) + int1(0) + int1(1) + "\x87R(" + int1(3) + old_str(order) + "NNN" +
         int4(-1) + int4(-1) + int1(0) + "tb\x89" + data + "tb";
}

// The official data_batch files: Python 2's cPickle and numpy of 2009.
TEST(PickleReader, CifarAsPublished) {
  const std::string batch =
      "}q\x01(" + old_str("batch_label") + "q\x02" + old_str("training batch 1 of 5") +
      old_str("labels") + "](" + int1(6) + int1(9) + "e" + old_str("data") +
      array_of("numpy.core", "u1", "|", int1(2) + int1(3) + "\x86", "T" + little(6, 4) + "abcdef") +
      old_str("filenames") + "](" + old_str("leptodactylus_s_000004.png") + old_str("b.png") + "eu";
  const auto document = read_plain(pickled(batch));
  ASSERT_TRUE(document.ok()) << document.error().message;
  EXPECT_EQ(show(document->root),
            "{b'batch_label': b'training batch 1 of 5', b'labels': [6, 9], b'data': array(u1 C 2 3 "
            "| 97 98 99 100 101 102), "
            "b'filenames': [b'leptodactylus_s_000004.png', b'b.png']}");
  EXPECT_EQ(document->root.find("data")->as<Array>()->bytes(), "abcdef");
}

TEST(PickleReader, NumpyOfTodayAndItsScalars) {
  EXPECT_EQ(shown(pickled(array_of("numpy._core", "i2", "<", ")", old_str("\x01\x02")))),
            "array(i2 C | 1 2)");
  const auto scalar = [](const std::string& dtype, const std::string& order,
                         const std::string& data) {
    return shown(pickled(global("numpy._core.multiarray", "scalar") + global("numpy", "dtype") +
                         unicode(dtype) + "\x89\x88\x87R(" + int1(3) + unicode(order) + "NNN" +
                         int4(-1) + int4(-1) + int1(0) + "tb" + old_str(data) + "\x86R"));
  };
  EXPECT_EQ(scalar("f8", "<", std::string("\0\0\0\0\0\0\x0c@", 8)), "3.5f");
  EXPECT_EQ(scalar("f4", "<", std::string("\0\0\x60\x40", 4)), "3.5f");
  EXPECT_EQ(scalar("f2", "<", std::string("\0\xc3", 2)), "-3.5f");
  EXPECT_EQ(scalar("i4", "<", "\xfe\xff\xff\xff"), "-2");
  EXPECT_EQ(scalar("u1", "|", "\xfe"), "254");
  EXPECT_EQ(scalar("b1", "|", "\x01"), "True");
  EXPECT_EQ(scalar("i4", ">", "\xff\xff\xff\xfe"), "-2");
  EXPECT_EQ(scalar("f4", ">", std::string("\x40\x60\0\0", 4)), "3.5f");
  EXPECT_EQ(shown(pickled(
                array_of("numpy._core", "i2", ">", int1(2) + "\x85", old_str("\x01\x02\x03\x04")))),
            "array(i2 C 2 | 2 1 4 3)");
  EXPECT_EQ(scalar("c16", "<", "12345678"), "<a numpy scalar of dtype 'c16'>");
  EXPECT_EQ(scalar("u8", "<", "\xff\xff\xff\xff\xff\xff\xff\xff"),
            "<the int 18446744073709551615>");
  const std::string buffer = global("numpy._core.numeric", "_frombuffer") + "(\x96" + little(2, 8) +
                             "ab" + global("numpy", "dtype") + unicode("u1") + "\x89\x88\x87R" +
                             int1(2) + "\x85" + unicode("F") + "tR";
  EXPECT_EQ(shown("\x80\x05" + buffer + "."), "array(u1 F 2 | 97 98)");
}

TEST(PickleReader, ArraysOfOtherThanNumbersAreLeaves) {
  const auto leaf = [](const std::string& dtype) {
    return "<a numpy array of dtype '" + dtype + "'>";
  };
  EXPECT_EQ(
      shown(pickled(array_of("numpy._core", "U2", "<", int1(1) + "\x85", unicode("abcdefgh")))),
      leaf("U2"));
  EXPECT_EQ(shown(pickled(array_of("numpy._core", "O8", "|", int1(1) + "\x85", "]Na"))),
            leaf("O8"));
  EXPECT_EQ(shown(pickled(array_of("numpy._core", "c8", ">", ")", unicode("abcd")))), leaf(">c8"));
  EXPECT_EQ(shown(pickled(global("numpy", "ndarray"))), "<numpy.ndarray>");
  EXPECT_EQ(shown(pickled(global("numpy", "dtype") + unicode("f4") + "\x85R")),
            "<the numpy dtype 'f4'>");
  const std::string derived = global("numpy._core.multiarray", "_reconstruct") +
                              global("numpy", "matrix") + ")" + old_str("b") + "\x87RNb";
  EXPECT_EQ(shown(pickled(derived)), "<numpy.matrix>");
  EXPECT_EQ(
      shown(pickled(global("numpy._core.multiarray", "scalar") + global("my", "Type") + "N\x86R")),
      "<numpy._core.multiarray.scalar>");
}

TEST(PickleReader, UnknownGlobalsAreLeavesWithTheirNames) {
  const std::string space = global("argparse", "Namespace");
  EXPECT_EQ(shown(pickled(space)), "<argparse.Namespace>");
  EXPECT_EQ(shown(pickled(space + ")R")), "<argparse.Namespace>");
  EXPECT_EQ(shown(pickled(space + ")\x81}(" + unicode("lr") + number(0.1) + "ub")),
            "<argparse.Namespace>");
  EXPECT_EQ(shown("\x80\x04" + space + ")}\x92(N\x90."), "<argparse.Namespace>");
  EXPECT_EQ(shown(pickled(space + ")R(NNeNaNNs(NNu")), "<argparse.Namespace>");
  EXPECT_EQ(shown(pickled(space + ")R)R")),
            "<argparse.Namespace>");  // an object that can be called
  EXPECT_EQ(shown(pickled(global("a\x1b[31m", "b"))), "<a\\x1b[31m.b>");
  EXPECT_EQ(shown(pickled(global("copyreg", "_reconstructor") + global("my", "Class") +
                          global("builtins", "object") + "N\x87R")),
            "<my.Class>");
  EXPECT_EQ(shown(pickled(global("torch.storage", "_load_from_bytes") + old_str("x") + "\x85R")),
            "<torch.storage._load_from_bytes>");
  // What else the file holds is read.
  EXPECT_EQ(
      shown(pickled("}(" + unicode("args") + space + ")\x81}b" + unicode("n") + int1(3) + "u")),
      "{'args': <argparse.Namespace>, 'n': 3}");
  // Known ones where they cannot be used, or with an unknown argument.
  EXPECT_EQ(shown(pickled(global("numpy", "ndarray") + ")R")), "<numpy.ndarray>");
  EXPECT_EQ(shown(pickled(global("_codecs", "encode") + ")\x81")), "<_codecs.encode>");
  EXPECT_EQ(shown(pickled(global("builtins", "set") + space + "\x85R")), "<builtins.set>");
}

TEST(PickleReader, ObjectsOfTheCallersKindKeepTheirAttributes) {
  const std::string module =
      global("__torch__.nn", "Net") + ")\x81}(" + unicode("w") + int1(1) + "ub";
  EXPECT_EQ(shown(pickled(module)), "object{'w': 1}");
  EXPECT_EQ(
      shown(pickled(global("__torch__", "Net") + ")\x81}(" + unicode("child") + module + "ub")),
      "object{'child': object{'w': 1}}");
  EXPECT_EQ(shown(pickled(global("__torch__", "Net") + ")\x81(NNtb")), "object{}");
  EXPECT_EQ(shown(pickled(global("__torch__", "Point") + ")R")), "<__torch__.Point>");
  EXPECT_EQ(shown(pickled(global("__torch__s", "Net") + ")\x81")), "<__torch__s.Net>");
}

TEST(PickleReader, DictsSetsAndBytesOfEveryProtocol) {
  for (const char* const python : {"__builtin__", "builtins"}) {
    EXPECT_EQ(shown(pickled(global(python, "set") + "](K\x03K\x05" + "e\x85R")), "set(3, 5)");
    EXPECT_EQ(shown(pickled(global(python, "frozenset") + "]N" + "a\x85R")), "frozenset(None)");
    EXPECT_EQ(shown(pickled(global(python, "bytearray") + ")R")), "b''");
    EXPECT_EQ(shown(pickled(global(python, "bytearray") + old_str("ab") + "\x85R")), "b'ab'");
    EXPECT_EQ(shown(pickled(global(python, "bytearray") + unicode("a\u00e9") + unicode("latin-1") +
                            "\x86R")),
              "b'a\xe9'");
    EXPECT_EQ(shown(pickled(global(python, "complex") + number(0) + number(-1.5) + "\x86R")),
              "<the complex number 0-1.5j>");
  }
  EXPECT_EQ(shown("\x80\x04\x8f\x94(K\x01K\x02\x90(N\x91\x86."), "(set(1, 2), frozenset(None))");
  EXPECT_EQ(shown(pickled(global("collections", "Counter") + "}(K\x0aK\x01K\x14K\x01u\x85R")),
            "{10: 1, 20: 1}");
  EXPECT_EQ(shown(pickled(global("collections", "defaultdict") + global("builtins", "list") +
                          "\x85R(" + unicode("a") + "]u")),
            "{'a': []}");
  EXPECT_EQ(shown(pickled("\x8a\x09" + little(17982163893102248868ULL, 8) + std::string(1, '\0'))),
            "<the int 17982163893102248868>");
  EXPECT_EQ(shown(pickled("\x8a\x09" + little(0, 8) + "\x80")),
            "<the int -2361183241434822606848>");
  EXPECT_EQ(shown(pickled("\x8a\x11" + times("\x7f", 17))), "<an int of 17 bytes>");
}

TEST(PickleReader, KeysOfEveryKindThatPythonHashes) {
  EXPECT_EQ(shown(pickled("}(K\x02K\x01\x86K\x05K\x01K\x02\x86K\x07u")), "{(2, 1): 5, (1, 2): 7}");
  EXPECT_EQ(shown(pickled("}(" + number(0.5) + "K\x01NK\x02\x88K\x03u")),
            "{0.5f: 1, None: 2, True: 3}");
  EXPECT_EQ(
      shown(pickled("}(" + global("my", "Colour") + "K\x01" + global("my", "Colour") + "K\x02u")),
      "{<my.Colour>: 1, <my.Colour>: 2}");
  EXPECT_EQ(shown(pickled("}((N\x91" + int1(1) + "u")), "{frozenset(None): 1}");
  const auto both =
      read_plain(pickled("}(" + old_str("a") + int1(1) + unicode("a") + int1(2) + "u"));
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(show(both->root), "{b'a': 1, 'a': 2}");
  EXPECT_EQ(*both->root.find("a")->integer(), 2);
}

// As Python's pickler writes them; what closes a loop is a leaf, and nothing else is lost.
TEST(PickleReader, LoopsAreCutWhereTheyClose) {
  EXPECT_EQ(shown(pickled("]q\x01h\x01"
                          "a")),
            "[<a list within itself>]");
  EXPECT_EQ(shown(pickled("}q\x01(" + unicode("me") + "h\x01" + unicode("n") + "K\x01u")),
            "{'me': <a dict within itself>, 'n': 1}");
  // t = ([],); t[0].append(t)
  EXPECT_EQ(shown(pickled("]q\x05h\x05\x85q\x01"
                          "a0h\x01")),
            "([<a tuple within itself>])");
  // Of four: POP_MARK in the place of POPs.
  EXPECT_EQ(shown(pickled("(]q\x05(h\x05NNNtq\x01"
                          "aNNN1h\x01")),
            "([<a tuple within itself>], None, None, None)");
  EXPECT_EQ(shown(pickled(global("collections", "OrderedDict") + ")Rq\x01}K\x01h\x01sb")),
            "Ordered{}+{1: <an OrderedDict within itself>}");
  // Beside a loop a shared list is no loop.
  EXPECT_EQ(shown(pickled("(]q\x01h\x01]q\x02h\x02"
                          "at")),
            "([], [], [<a list within itself>])");
}

TEST(PickleReader, WhatFollowsIsTheCallers) {
  const auto document = read_plain(pickled("N") + "rest");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->bytes, 4U);
}

}  // namespace
}  // namespace lockstep::pickle::test
