// A report's runs as text for people, Markdown, CSV, JSON, and as a page. Pure.
#pragma once

#include <span>
#include <string>

#include "inspect/report/run.h"

namespace lockstep::inspect {

std::string report_text(std::span<const Run> runs);
std::string report_markdown(std::span<const Run> runs);
std::string report_csv(std::span<const Run> runs);   // RFC 4180 but for LF; a run a line
std::string report_json(std::span<const Run> runs);  // read_runs_json() reads it
std::string report_html(std::span<const Run> runs);

// A cell of CSV, quoted where it must be.
std::string csv_cell(const std::string& content);
// Text in a Markdown table's cell, its marks escaped.
std::string markdown_cell(const std::string& text);

}  // namespace lockstep::inspect
