#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>

#include "base/unique_fd.h"
#include "coord/note_file.h"
#include "launcher/output/host_name.h"
#include "launcher/program/program.h"
#include "launcher/reports/failure_report.h"
#include "launcher/reports/incident_table.h"
#include "launcher/reports/incidents.h"
#include "launcher/store/held_port.h"
#include "support/child.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

WorkerFailure failure(int rank, double time) {
  WorkerFailure f;
  f.rank = rank;
  f.local_rank = rank;
  f.pid = 100 + rank;
  f.exit_code = 1;
  f.time_s = time;
  f.message = "message of " + std::to_string(rank);
  return f;
}

std::string report(const std::vector<WorkerFailure>& failures) {
  return failure_report("prog", failures, root_cause_of(failures));
}

TEST(FailureReport, TheEarliestIsTheRootCause) {
  const std::string text = report({failure(0, 20), failure(1, 10), failure(2, 10.5)});
  const std::size_t root = text.find("Root Cause (first observed failure):\n[1]:");
  ASSERT_NE(root, std::string::npos) << text;
  EXPECT_NE(text.find("message of 1", root), std::string::npos);
  EXPECT_LT(text.find("message of 0"), root);
  EXPECT_LT(text.find("message of 2"), root);
}

TEST(FailureReport, TheSameWordsAreSaidOnce) {
  std::vector<WorkerFailure> failures = {failure(0, 20), failure(1, 10), failure(2, 30)};
  failures[2].message = failures[1].message;
  const std::string text = report(failures);
  EXPECT_EQ(text.find("message of 1"), text.rfind("message of 1")) << text;
  EXPECT_NE(text.find("traceback : the root cause's"), std::string::npos) << text;
}

TEST(FailureReport, ReadsBothFormsOfErrorFiles) {
  WorkerFailure f = failure(0, 1);
  read_error_file(
      R"({"message":{"message":"E: x","extraInfo":{"py_callstack":"the stack","timestamp":"77"}}})",
      f);
  EXPECT_EQ(f.message, "the stack");
  EXPECT_EQ(f.time_s, 77);
  read_error_file(R"({"message":"plain","timestamp":"78"})", f);
  EXPECT_EQ(f.message, "plain");
  EXPECT_EQ(f.time_s, 78);
}

TEST(FailureReport, SurvivesWhateverAWorkerWrote) {
  for (const std::string text :
       {"", "{", "[]", "null", R"({"message":7})", R"({"message":{"extraInfo":[]}})",
        R"({"message":{"extraInfo":{"py_callstack":3,"timestamp":{}}}})"}) {
    WorkerFailure f = failure(0, 1);
    read_error_file(text, f);
    EXPECT_EQ(f.message, "message of 0") << text;
    EXPECT_EQ(f.time_s, 1) << text;
  }
}

TEST(FailureReport, AnErrorFileThatSaysNothingIsNotCalledMissing) {
  const test::TempFolder folder;
  Worker worker{};
  worker.error_file = folder / "error.json";
  const ChildEvent exited{ChildEvent::kExited, 100, 7};
  EXPECT_EQ(
      failure_of(worker, exited, 1).message,
      "ended with exit code 7 and left no error file; its output on " + host_name() + " has more");
  for (const char* text : {"\xff{", "null", R"({"message":7})"}) {
    folder.write("error.json", text);
    EXPECT_EQ(
        failure_of(worker, exited, 1).message,
        "ended with exit code 7; its error file has no \"message\" that could be read as JSON");
  }
  folder.write("error.json", R"({"message":"why"})");
  EXPECT_EQ(failure_of(worker, exited, 1).message, "why");
}

TEST(IncidentTable, CountsFromTheDeathAndLeavesOutWhatWasNotReached) {
  coord::Incident incident;
  incident.number = 3;
  incident.txn = Txn(300);
  incident.victims = {{WorkerUid(2), Rank(1), "SIGKILL"}};
  incident.phases.death = 1'000'000'000;
  incident.phases.noticed = 1'000'500'000;
  incident.phases.committed = 1'012'000'000;
  const std::string text = incident_table(incident);
  EXPECT_NE(text.find("incident 3 in transaction 300: rank 1 SIGKILL"), std::string::npos) << text;
  EXPECT_NE(text.find("noticed                   0.50 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("step committed           12.00 ms"), std::string::npos) << text;
  EXPECT_EQ(text.find("regrouped"), std::string::npos) << text;
}

TEST(IncidentTable, IsInTheOrderOfTimeAndSaysThatADeathsTimeIsNotKnown) {
  coord::Incident incident;
  incident.phases.noticed = 1'000'000'000;
  incident.phases.resumed = 1'001'000'000;  // a fast one begins before the last has seen it
  incident.phases.aborted = 1'002'000'000;
  const std::string text = incident_table(incident);
  EXPECT_NE(text.find("  death                        -\n"), std::string::npos) << text;
  EXPECT_LT(text.find("noticed                   0.00 ms"), text.find("step begun again"));
  EXPECT_LT(text.find("step begun again"), text.find("aborted"));
}

TEST(Incidents, ThatSayNoMoreThanTheDeathsAreNotPrinted) {
  int printed = 0;
  Incidents incidents([&](const std::string&) { ++printed; });
  coord::Incident incident;
  incident.number = 1;
  incident.rung = 4;
  incident.phases.noticed = 1;
  incidents.record(incident);
  incidents.print(true);
  EXPECT_EQ(printed, 0);
}

TEST(Incidents, AreWrittenOnceThereIsADirectoryAndPrintedOnceSettled) {
  std::vector<std::string> printed;
  std::vector<std::uint64_t> written;
  Incidents incidents([&](const std::string& table) { printed.push_back(table); });
  coord::Incident incident;
  incident.number = 1;
  incident.phases.noticed = 1'000'000'000;
  incidents.record(incident);
  incidents.write_by([&](const coord::Incident& i) { written.push_back(i.number); });
  EXPECT_EQ(written, std::vector<std::uint64_t>{1});
  incidents.print(false);
  EXPECT_TRUE(printed.empty());  // its replacement is on its way
  incident.phases.rejoined = 1'040'000'000;
  incidents.record(incident);
  incidents.print(false);
  ASSERT_EQ(printed.size(), 1U);
  EXPECT_NE(printed[0].find("replacement joined       40.00 ms"), std::string::npos) << printed[0];
  incidents.record(incident);
  incidents.print(true);
  EXPECT_EQ(printed.size(), 1U);
  EXPECT_EQ(written.size(), 3U);
  incident.number = 2;
  incident.phases.rejoined = 0;
  incidents.record(incident);
  incidents.print(true);
  EXPECT_EQ(printed.size(), 2U);
}

TEST(Incidents, AreToldInTheOrderOfTime) {
  std::vector<std::string> printed;
  Incidents incidents([&](const std::string& table) { printed.push_back(table); });
  coord::Incident first, second;
  first.number = 1;
  second.number = 2;
  second.rung = 4;  // settled at once
  second.phases.aborted = 1;
  incidents.record(first);
  incidents.record(second);
  incidents.print(false);
  incidents.print(true);
  ASSERT_EQ(printed.size(), 2U);
  EXPECT_NE(printed[0].find("incident 1 "), std::string::npos) << printed[0];
  EXPECT_NE(printed[1].find("incident 2 "), std::string::npos) << printed[1];
}

std::optional<std::uint32_t> program_version(const std::string& file) {
  return coord::noted_version(file, coord::kNote);
}

TEST(Program, TheNoteIsFoundInLinkedProgramsOnly) {
  EXPECT_EQ(program_version(TOY_WORKER), coord::kProtocolVersion);
  EXPECT_FALSE(program_version("/bin/sh"));
  EXPECT_FALSE(program_version("/nowhere"));
  test::TempFolder folder;
  const std::string stripped = folder / "stripped";
  ASSERT_EQ(test::run({"strip", "-o", stripped, TOY_WORKER}).code, 0);
  EXPECT_EQ(program_version(stripped), coord::kProtocolVersion);
  // Cut short anywhere near the start it is no program, and no reason to crash.
  const std::string whole = test::read_text(TOY_WORKER);
  for (const std::size_t size : {0U, 3U, 20U, 64U, 100U, 400U, 900U}) {
    std::ofstream(folder / "cut") << whole.substr(0, size);
    EXPECT_FALSE(program_version(folder / "cut")) << size;
  }
  // The launcher has one of its own, and is no program to launch.
  EXPECT_FALSE(coord::noted_version(TOY_WORKER, coord::kLauncherNote));
  EXPECT_EQ(coord::noted_version(LOCKSTEP_PROGRAM, coord::kLauncherNote), coord::kProtocolVersion);
  EXPECT_FALSE(program_version(LOCKSTEP_PROGRAM));
}

TEST(Program, OfAnotherVersionIsRefused) {
  std::string text = test::read_text(TOY_WORKER);
  coord::Note note = coord::kNote;
  const std::size_t at = text.find(std::string(reinterpret_cast<const char*>(&note), sizeof note));
  ASSERT_NE(at, std::string::npos);
  note.version = coord::kProtocolVersion + 7;
  text.replace(at, sizeof note, reinterpret_cast<const char*>(&note), sizeof note);
  test::TempFolder folder;
  const std::string other = folder / "other";
  std::ofstream(other) << text;
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  LaunchOptions options;
  options.program = {other};
  const auto program = find_program(options);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::kUsage);
  for (const std::uint32_t version : {coord::kProtocolVersion, coord::kProtocolVersion + 7})
    EXPECT_NE(program.error().message.find("version " + std::to_string(version)), std::string::npos)
        << program.error().message;
}

// A server as PyTorch's TCPStore makes it: SO_REUSEADDR, bind, listen.
UniqueFd server(int port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 8) != 0)
    fd.reset();
  return fd;
}

TEST(HeldPort, IsForOneServerOfTheWorkers) {
  auto port = HeldPort::hold(0);
  ASSERT_TRUE(port.ok());
  EXPECT_GT(port->number(), 0);
  const UniqueFd first = server(port->number());
  if (!first) GTEST_SKIP() << "skipped: no IPv6";
  EXPECT_FALSE(server(port->number()));
  auto taken = HeldPort::hold(port->number());
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().message.find("port " + std::to_string(port->number())),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::launcher
