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
  EXPECT_NE(scalar("i4", ">", "\xff\xff\xff\xfe").find("little-endian"), std::string::npos);
  EXPECT_NE(scalar("O8", "|", "12345678").find("plain numbers"), std::string::npos);
  EXPECT_NE(scalar("u8", "<", "\xff\xff\xff\xff\xff\xff\xff\xff").find("unsigned int"),
            std::string::npos);
  const std::string buffer = global("numpy._core.numeric", "_frombuffer") + "(\x96" + little(2, 8) +
                             "ab" + global("numpy", "dtype") + unicode("u1") + "\x89\x88\x87R" +
                             int1(2) + "\x85" + unicode("F") + "tR";
  EXPECT_EQ(shown("\x80\x05" + buffer + "."), "array(u1 F 2 | 97 98)");
}

TEST(PickleReader, WhatFollowsIsTheCallers) {
  const auto document = read_plain(pickled("N") + "rest");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->bytes, 4U);
}

}  // namespace
}  // namespace lockstep::pickle::test
