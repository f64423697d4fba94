// The report of a worker's failure on its way from its node to the others: bounded, so that what a
// worker has written costs nobody much. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/reports/failure_report.h"
#include "star/messages.h"

namespace lockstep::launcher {

// The most bytes of one text. All nodes of a run together get kMostTexts.
inline constexpr std::size_t kMostText = 32 << 10, kMostTexts = 32 << 20;
std::size_t most_text(int nodes);

// An error file that is longer than that goes as its message, of which the end is kept.
star::message::Failed told(const WorkerFailure& failure, const std::string& host);
void shorten(star::message::Failed& failed, std::size_t most_bytes);
WorkerFailure failure_of(const star::message::Failed& failed);

}  // namespace lockstep::launcher
