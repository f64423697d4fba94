#!/usr/bin/env python3
"""What tools/check_docs says of docs/design/walk.md."""
import unittest

from test_tools import load


class Walk(unittest.TestCase):
    def said(self, entry):
        return [what for _, what in load("check_docs").walked(f"- `{entry}` - does it\n")]

    def test_functions_that_are_defined_are_found(self):
        for entry in ("src/coord/next_table.cpp: next_table", "src/coord/run_lead.cpp: RunLead::RunLead",
                      "src/coord/host_ending.cpp: HostKeeper::on(Exited)"):
            self.assertEqual(self.said(entry), [])

    def test_what_is_gone_is_named(self):
        for entry in ("src/coord/gone.cpp: next_table", "src/coord/next_table.cpp: is_dead",  # is called there
                      "src/coord/run_lead.cpp: RunKeeper::hear", "src/coord/run_lead.cpp: hear"):
            file, name = entry.split(": ")
            self.assertEqual(self.said(entry), [f"{file} defines no {name}"])
        self.assertEqual(self.said("src/coord/host_ending.cpp: HostKeeper::on(Stopped)"),
                         ["src/coord/host_ending.cpp defines no HostKeeper::on that takes Stopped"])
        self.assertEqual(self.said("next_table()"), ["names no function"])


if __name__ == "__main__":
    unittest.main()
