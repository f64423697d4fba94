#include "inspect/html.h"

#include "base/text.h"

namespace lockstep::inspect {
namespace {

// Series colours keep a contrast of 3:1 or more on their ground, and differ for colour-blind eyes
// (after Okabe and Ito, 2008).
constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--ground:#fff;--text:#1c1e21;--faint:#5b6169;--line:#d4d8dd;
--panel:#f5f6f8;--s0:#0065a3;--s1:#b8500a;--s2:#00785a;--s3:#a0478a;--s4:#8a6d00;--s5:#2f83c5;
--s6:#c0392b;--s7:#555}
@media(prefers-color-scheme:dark){:root{--ground:#15171a;--text:#e6e8ea;--faint:#a0a7af;
--line:#3a3f45;--panel:#1e2125;--s0:#5ab4f0;--s1:#f2994a;--s2:#35c79a;--s3:#e08ac8;--s4:#e3c341;
--s5:#9dc9ee;--s6:#ff8577;--s7:#bbb}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:72rem;background:var(--ground);color:var(--text);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.2rem 0 .4rem}h3 .faint{font-weight:400}
p{max-width:60rem}.faint{color:var(--faint)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
thead th,thead td{border-bottom:2px solid var(--line);vertical-align:bottom}
thead th{white-space:normal;overflow-wrap:break-word;min-width:7.5rem;max-width:14rem}
tbody th{font-weight:400;position:sticky;left:0;background:var(--ground)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;margin:.3rem 0;padding:0}
.legend svg{width:1.8rem;height:.8rem;margin-right:.4rem}
figure{margin:1rem 0;padding:.8rem;background:var(--panel);border-radius:6px}
figcaption{font-weight:600}
.graphs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
.graphs figure{margin:0;min-width:0;max-width:46rem}
svg.chart{width:100%;height:auto;display:block}
svg text{fill:var(--text);font-size:14px}svg .axis{stroke:var(--faint);fill:none}
svg .grid{stroke:var(--line)}
svg .series{fill:none;stroke-width:2;stroke-linejoin:round}svg circle.series{fill:var(--panel)}
.s0{stroke:var(--s0)}.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}
.s4{stroke:var(--s4)}.s5{stroke:var(--s5)}.s6{stroke:var(--s6)}.s7{stroke:var(--s7)}
.dash{stroke-dasharray:7 4}.dot{stroke-dasharray:2 4}
.samples{display:flex;flex-wrap:wrap;gap:.8rem}
.samples figure{margin:0;padding:.5rem;font-size:.85rem}
.samples figcaption{font-weight:400;max-width:26rem;overflow-wrap:anywhere}
.views{display:flex;flex-wrap:wrap;gap:.4rem}.views>span{text-align:center}
.samples img{display:block;image-rendering:pixelated}.views img{margin:0 auto}
td.bars{padding-left:0;text-align:left;min-width:7rem}
.bar{display:inline-block;height:.7rem;border-radius:2px}
@media(max-width:40rem){body{padding:.8rem}th,td{padding:.3rem .5rem}td.bars{display:none}
.views{display:grid;grid-template-columns:auto auto;justify-content:start}
svg text{font-size:16px}}
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F)
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  const std::string name = escaped(title);
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";
  page += "<title>" + name + "</title>\n<style>";
  page += kStyle;
  page += "</style>\n</head>\n<body>\n<h1>" + name + "</h1>\n";
  page += body;
  return page + "</body>\n</html>\n";
}

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

}  // namespace lockstep::inspect
