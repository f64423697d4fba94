// Numbers of the zip format that reader and writer share (APPNOTE.TXT 4.3, 4.4).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::checkpoint::pt::zip {

inline constexpr std::uint32_t kLocalMark = 0x04034b50;
inline constexpr std::uint32_t kCentralMark = 0x02014b50;
inline constexpr std::uint32_t kEndMark = 0x06054b50;
inline constexpr std::uint32_t kEnd64Mark = 0x06064b50;
inline constexpr std::uint32_t kLocator64Mark = 0x07064b50;

inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kLocator64Bytes = 20;

inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint16_t kDeflated = 8;
inline constexpr std::uint16_t kEncrypted = 1;   // flag
inline constexpr std::uint16_t kDescriptor = 8;  // flag: sizes and CRC follow the data
inline constexpr std::uint16_t kUtf8 = 0x800;    // flag: of names
inline constexpr std::uint16_t kZip64Extra = 1;  // 64-bit sizes and offset, those that are needed
inline constexpr std::uint32_t kIn64 = 0xffffffff;  // "see the zip64 field"

}  // namespace lockstep::checkpoint::pt::zip
