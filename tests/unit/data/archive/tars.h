// Tar archives entry by entry, as POSIX.1-2001 has them; whatever is asked for, however wrong.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "unit/data/gzip_bytes.h"

namespace lockstep::data {

class Tar {
 public:
  Tar& add(const std::string& name, const std::string& content = "", char type = '0',
           const std::string& prefix = "") {
    header(name, octal(content.size()), type, prefix);
    text_ += content;
    text_.resize((text_.size() + 511) / 512 * 512);
    return *this;
  }
  Tar& pax(const std::string& key, const std::string& value) { return records({{key, value}}); }
  Tar& records(const std::vector<std::pair<std::string, std::string>>& all) {
    std::string text;
    for (const auto& [key, value] : all) {
      std::size_t length = key.size() + value.size() + 3;
      while (std::to_string(length).size() + key.size() + value.size() + 3 != length)
        length = std::to_string(length).size() + key.size() + value.size() + 3;
      text += std::to_string(length) + " " + key + "=" + value + "\n";
    }
    return add("pax", text, 'x');
  }
  Tar& link(const std::string& name, const std::string& target) {
    header(name, octal(0), '1');
    return patch({{157, target}});
  }
  // GNU's old format: four parts in the header, 21 in each block behind it.
  Tar& gnu_sparse(const std::string& name, std::size_t size,
                  const std::vector<std::pair<std::size_t, std::size_t>>& parts,
                  const std::string& stored) {
    constexpr std::size_t kInHeader = 4, kInBlock = 21;
    const auto entries = [&](std::size_t from, std::size_t most) {
      std::string text;
      for (std::size_t i = from; i < std::min(parts.size(), from + most); ++i)
        text += octal(parts[i].first) + '\0' + octal(parts[i].second) + '\0';
      return text;
    };
    header(name, octal(stored.size()), 'S');
    patch({{257, std::string("ustar  \0", 8)},
           {386, entries(0, kInHeader)},
           {482, std::string(1, parts.size() > kInHeader ? '\1' : '\0')},
           {483, octal(size)}});
    for (std::size_t from = kInHeader; from < parts.size(); from += kInBlock) {
      std::string block = entries(from, kInBlock);
      block.resize(512);
      block[504] = from + kInBlock < parts.size() ? '\1' : '\0';
      text_ += block;
    }
    text_ += stored;
    text_.resize((text_.size() + 511) / 512 * 512);
    return *this;
  }
  // `size`: its twelve bytes.
  Tar& header(const std::string& name, const std::string& size, char type = '0',
              const std::string& prefix = "") {
    std::string block(512, '\0');
    block.replace(0, name.size(), name);
    block.replace(100, 7, "0000644");
    block.replace(124, size.size(), size);
    block[156] = type;
    block.replace(257, 8,
                  std::string("ustar\0"
                              "00",
                              8));
    block.replace(345, prefix.size(), prefix);
    text_ += block;
    return patch({});
  }
  std::string end() const { return text_ + std::string(1024, '\0'); }
  const std::string& open_end() const { return text_; }

  static std::string octal(std::size_t size) {
    std::array<char, 13> digits;
    std::snprintf(digits.data(), digits.size(), "%011zo", size);
    return {digits.data(), 11};
  }

 private:
  // Of the last block, a header, whose sum is then right.
  Tar& patch(const std::vector<std::pair<std::size_t, std::string>>& fields) {
    std::string block = text_.substr(text_.size() - 512);
    for (const auto& [at, field] : fields) block.replace(at, field.size(), field);
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    std::array<char, 8> digits;
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    block.replace(148, 7, std::string(digits.data(), 7));
    text_.replace(text_.size() - 512, 512, block);
    return *this;
  }

  std::string text_;
};

}  // namespace lockstep::data
