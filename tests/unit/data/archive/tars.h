// Tar archives entry by entry, as POSIX.1-2001 has them; whatever is asked for, however wrong.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

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
  Tar& pax(const std::string& key, const std::string& value) {
    std::size_t length = key.size() + value.size() + 3;
    while (std::to_string(length).size() + key.size() + value.size() + 3 != length)
      length = std::to_string(length).size() + key.size() + value.size() + 3;
    return add("pax", std::to_string(length) + " " + key + "=" + value + "\n", 'x');
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
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    std::array<char, 8> digits;
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    block.replace(148, 7, std::string(digits.data(), 7));
    text_ += block;
    return *this;
  }
  std::string end() const { return text_ + std::string(1024, '\0'); }
  const std::string& open_end() const { return text_; }

  static std::string octal(std::size_t size) {
    std::array<char, 13> digits;
    std::snprintf(digits.data(), digits.size(), "%011zo", size);
    return {digits.data(), 11};
  }

 private:
  std::string text_;
};

}  // namespace lockstep::data
