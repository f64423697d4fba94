// .pt files of forms that no torch of today writes, opcode by opcode. Python loads them, too
// (python_test.cpp), so that they are what we think.
#pragma once

#include <string>
#include <vector>

#include "unit/checkpoint_pt/build.h"

namespace lockstep::checkpoint::pt::test {

struct OldFile {
  std::string name;
  std::string content;
  std::string shown;
};

inline std::string rebuild_v1(const std::string& storage, int offset, int size) {
  return global("torch._utils", "_rebuild_tensor") + "(" + storage + int1(offset) + int1(size) +
         "\x85" + int1(1) + "\x85tR";
}

inline std::string float_tensor(const std::vector<float>& values) {
  return show(tensor_of(DType::kF32, {values.size()}, floats(values)));
}
inline std::string float_parameter(const std::vector<float>& values) {
  const std::string tensor = float_tensor(values);
  return "parameter" + tensor.substr(6, tensor.size() - 7);
}

inline std::vector<OldFile> old_tensors() {
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  const std::string v1 = rebuild_v1(storage("0", 6), 0, 6);
  const std::string parameter = global("torch.nn.parameter", "Parameter");
  const std::string ordered = global("collections", "OrderedDict") + ")R";
  const std::string on_gpu = rebuild_v2(storage("0", 6, "cuda:0"), 0, int1(6), int1(1));
  const std::string v3 = global("torch._utils", "_rebuild_tensor_v3") + "(" +
                         storage("0", 24, "cpu", "UntypedStorage", "torch.storage") + int1(1) +
                         int1(2) + "\x85" + int1(1) + "\x85" + no_hooks() +
                         global("torch", "int16") + "tR";
  return {
      {"v1", around(v1), float_tensor(six)},
      {"reduced", around(parameter + v1 + "\x88\x86R"), float_parameter(six) + " grad)"},
      {"defaulted", around(parameter + v1 + "\x85R"), float_parameter(six) + " grad)"},
      {"built", around(parameter + v1 + "\x85\x81(\x89\x89" + ordered + "tb"),
       float_parameter(six) + ")"},
      {"rebuilt",
       around(global("torch._utils", "_rebuild_parameter") + v1 + "\x89" + ordered + "\x87R"),
       float_parameter(six) + ")"},
      {"gpu", around(on_gpu), float_tensor(six)},
      {"strided", around(rebuild_v2(storage("0", 6), 1, int1(2), int1(2))), float_tensor({2, 4})},
      {"scalar", around(rebuild_v2(storage("0", 6), 5, "", "")), "tensor(F32 | 0 0 c0 40)"},
      {"v3", around(v3), "tensor(I16 2 | 80 3f 0 0)"},
  };
}

// As Python 2 and torch 0.2 wrote torchvision's VGG19: str, OrderedDict of lists, a Parameter; and
// a view of a storage, one element in.
inline OldFile old_stream() {
  const auto old_storage = [](const std::string& key, int elements, const std::string& view) {
    return "(" + old_str("storage") + global("torch", "FloatStorage") + old_str(key) +
           old_str("cpu") + int1(elements) + view + "tQ";
  };
  const std::string view = "(" + old_str("9") + int1(1) + int1(2) + "t";
  const std::string w = global("torch.nn.parameter", "Parameter") +
                        rebuild_v1(old_storage("11", 2, "N"), 0, 2) + "\x88\x86R";
  const std::string b = rebuild_v1(old_storage("10", 3, view), 1, 1);
  const std::string object = global("collections", "OrderedDict") + "](](" + old_str("w") + w +
                             "e](" + old_str("bias") + b + "ee\x85R";
  const std::string keys = "](" + old_str("10") + old_str("11") + "e";
  return {
      "stream",
      stream_start() + pickled(object) + pickled(keys) + little(3, 8) + floats({1, 2, 3}) +
          little(2, 8) + floats({4, 5}),
      "Ordered{b'w': " + float_parameter({4, 5}) + " grad), b'bias': " + float_tensor({3}) + "}"};
}

// Python 3's str, as torch 0.4 to 1.5; from a GPU.
inline OldFile gpu_stream() {
  std::string on_gpu = storage("5", 2, "cuda:0");
  on_gpu.insert(on_gpu.size() - 2, "N");  // no view
  const std::string object = "}" + unicode("a") + rebuild_v2(on_gpu, 0, int1(2), int1(1)) + "s";
  return {"gpu_stream",
          stream_start() + pickled(object) + pickled("]" + unicode("5") + "a") + little(2, 8) +
              floats({7, 8}),
          "{'a': " + float_tensor({7, 8}) + "}"};
}

}  // namespace lockstep::checkpoint::pt::test
