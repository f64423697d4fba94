#include "checkpoint/header_sax.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace lockstep::checkpoint {
namespace {

using Parsed = nlohmann::json;

constexpr std::size_t kMaxRank = 64;

// A name as the format's are, or quoted.
std::string shown_dtype(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && name.size() <= 20 && std::ranges::all_of(name, plain) ? name
                                                                                : quote(name);
}

// Every event is allowed in exactly one place; anything else ends the parse with a reason. What
// stands under a key of a tensor that is not known, as the format may have one day, is passed over.
class HeaderSax final : public nlohmann::json_sax<Parsed> {
 public:
  explicit HeaderSax(Header& header) : header_(header) {}

  const std::string& reason() const { return reason_; }

  bool start_object(std::size_t) override {
    if (deeper()) return true;
    switch (place_) {
      case Place::kOutside:
        return go(Place::kTop);
      case Place::kTensor:
        return open_tensor();
      case Place::kMetadata:
        return go(Place::kMetadataKey);
      default:
        return refuse("an object where none belongs");
    }
  }

  bool key(string_t& name) override {
    if (place_ == Place::kUnknown) return true;
    switch (place_) {
      case Place::kTop:
        return top_key(name);
      case Place::kTensorKey:
        return tensor_key(name);
      case Place::kMetadataKey:
        return metadata_key(name);
      default:
        return refuse("a key where none belongs");
    }
  }

  bool string(string_t& value) override {
    if (passed_over()) return true;
    if (place_ == Place::kMetadataValue) {
      header_.metadata[metadata_key_] = value;
      return go(Place::kMetadataKey);
    }
    if (place_ != Place::kDType) return refuse("a string where none belongs");
    entry().info.dtype = dtype_of(value).value_or(DType::kOpaque);
    if (!entry().info.readable()) entry().info.other = shown_dtype(value);
    return go(Place::kTensorKey);
  }

  bool start_array(std::size_t) override {
    if (deeper()) return true;
    if (place_ == Place::kShape) return go(Place::kExtent);
    if (place_ == Place::kOffsets) return go(Place::kOffset);
    return refuse("an array where none belongs");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (passed_over()) return true;
    if (place_ == Place::kExtent) {
      if (entry().info.shape.size() == kMaxRank) return refuse("more than 64 dimensions");
      entry().info.shape.push_back(value);
      return true;
    }
    if (place_ != Place::kOffset) return refuse("a number where none belongs");
    if (offsets_ == 2) return refuse("more than two data_offsets");
    (offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }

  bool end_array() override {
    if (higher()) return true;
    if (place_ == Place::kOffset && offsets_ != 2) return refuse("fewer than two data_offsets");
    return go(Place::kTensorKey);
  }

  bool end_object() override {
    if (higher()) return true;
    if (place_ == Place::kTop) return go(Place::kDone);
    if (place_ == Place::kTensorKey && (!has_dtype_ || !has_shape_ || !has_offsets_))
      return refuse("dtype, shape or data_offsets is missing");
    return go(Place::kTop);
  }

  bool null() override {
    if (place_ == Place::kMetadata) return go(Place::kTop);  // none
    return passed_over() || refuse("null where none belongs");
  }
  bool boolean(bool) override { return passed_over() || refuse("a boolean where none belongs"); }
  bool number_integer(number_integer_t) override {
    return passed_over() || refuse("a negative number");
  }
  bool number_float(number_float_t, const string_t&) override {
    return passed_over() || refuse("a number that is not a whole one");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const Parsed::exception&) override {
    return refuse("not JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place {
    kOutside,
    kTop,
    kTensor,
    kTensorKey,
    kDType,
    kShape,
    kExtent,
    kOffsets,
    kOffset,
    kUnknown,
    kMetadata,
    kMetadataKey,
    kMetadataValue,
    kDone,
  };

  Entry& entry() { return header_.entries.back(); }

  bool go(Place place) {
    place_ = place;
    return true;
  }

  bool refuse(const std::string& what) {
    reason_ = (where_.empty() ? "" : where_ + ": ") + what;
    return false;
  }

  bool top_key(const std::string& name) {
    where_ = "tensor " + quote(name);
    if (!names_.insert(name).second) return refuse("named twice");
    if (name == "__metadata__") return go(Place::kMetadata);
    name_ = name;
    return go(Place::kTensor);
  }

  bool open_tensor() {
    Entry& entry = header_.entries.emplace_back();
    entry.info.name = name_;
    entry.place = header_.entries.size() - 1;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_ = 0;
    return go(Place::kTensorKey);
  }

  bool tensor_key(const std::string& name) {
    if (name == "dtype") return once(has_dtype_, Place::kDType);
    if (name == "shape") return once(has_shape_, Place::kShape);
    if (name == "data_offsets") return once(has_offsets_, Place::kOffsets);
    depth_ = 0;
    return go(Place::kUnknown);
  }

  // A value under an unknown key, or within it; the last one ends the key.
  bool passed_over() {
    if (place_ != Place::kUnknown) return false;
    if (depth_ == 0) place_ = Place::kTensorKey;
    return true;
  }
  bool deeper() {
    if (place_ != Place::kUnknown) return false;
    ++depth_;
    return true;
  }
  bool higher() {
    if (place_ != Place::kUnknown) return false;
    --depth_;
    return passed_over();
  }

  bool once(bool& seen, Place next) {
    if (seen) return refuse("a key twice");
    seen = true;
    return go(next);
  }

  bool metadata_key(const std::string& name) {
    if (header_.metadata.contains(name)) return refuse("key " + quote(name) + " twice");
    metadata_key_ = name;
    return go(Place::kMetadataValue);
  }

  Header& header_;
  Place place_ = Place::kOutside;
  std::unordered_set<std::string> names_;
  std::string name_, metadata_key_, where_, reason_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  std::size_t depth_ = 0;  // of arrays and objects under an unknown key
};

}  // namespace

Status read_header_json(std::string_view json, Header& header) {
  HeaderSax sax(header);
  if (!Parsed::sax_parse(json.begin(), json.end(), &sax))
    return Error{ErrorKind::kBadData, "safetensors: the header is not valid: " + sax.reason()};
  return {};
}

}  // namespace lockstep::checkpoint
