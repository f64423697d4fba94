// numpy's arrays of numbers, as their pickles hold them (numpy/_core/src/multiarray/methods.c,
// array_reduce and array_setstate; numpy/_core/numeric.py, _frombuffer from protocol 5 on).
// Read: b1, i1-i8, u1-u8, f2-f8, in both byte orders. Objects, strings, dates, structures and
// complex numbers are leaves. numpy's scalars become a plain bool, int or float.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pickle/value.h"

namespace lockstep::pickle {

class Array final : public Object {
 public:
  std::string type() const override;
  Status build(const Value& state) override;
  bool complete() const override { return bytes_ != nullptr; }

  const std::string& dtype() const { return dtype_; }  // "u1"
  const std::vector<std::uint64_t>& shape() const { return shape_; }
  bool fortran_order() const { return fortran_; }
  std::string_view bytes() const { return *bytes_; }  // little-endian

  // In Fortran's or C's order; the size must fit. Not complete if the dtype is not read.
  static Result<Value> make(const Value& dtype, const Value& shape, bool fortran,
                            const Value& data);

 private:
  Status fill(const Value& dtype, const Value& shape, bool fortran, const Value& data);

  std::string dtype_;  // of one that is not read: with its byte order, ">c8"
  std::vector<std::uint64_t> shape_;
  bool fortran_ = false;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace lockstep::pickle
