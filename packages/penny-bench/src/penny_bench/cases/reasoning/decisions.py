"""C5 and C6: transfers that may come twice, and whether a release may go out."""

from penny_bench.cases.reasoning.model import Item, Key, Question, ReasoningCase

TRANSFERS = ReasoningCase(
    "C5 transfers",
    (
        Question(
            "A bank takes transfers as messages: minute, key, from, to, amount. These are its rules, in this "
            "order.\n1. A message from an account to itself is invalid. It changes nothing, and its key is "
            "not remembered.\n2. A key is remembered for 60 minutes from the message that brought it: at "
            "minute 60 after that message it is forgotten, and a message with it counts as new.\n"
            "3. A message whose key is remembered and which is the same in from, to and amount is a repeat: "
            "nothing changes, and the first result is told again. If anything differs, it is a conflict: "
            "nothing changes.\n4. A new message is refused if the sender has less than the amount; else the "
            "amount is moved. In both cases its key is remembered.\n\n"
            "At the start A has 100, B has 50 and C has 0. The messages are:\n"
            "1: minute 0, k1, A to B, 70\n2: minute 2, k2, B to C, 110\n3: minute 3, k1, A to B, 70\n"
            "4: minute 5, k3, A to C, 40\n5: minute 6, k4, C to A, 25\n6: minute 8, k3, A to C, 40\n"
            "7: minute 10, k4, C to A, 52\n8: minute 12, k5, B to B, 5\n9: minute 13, k5, B to A, 10\n"
            "10: minute 59, k1, A to B, 70\n11: minute 60, k1, A to B, 20\n12: minute 61, k1, A to B, 70\n"
            "13: minute 63, k3, A to C, 40\n14: minute 65, k3, A to C, 40\n15: minute 70, k2, B to C, 110\n\n"
            "What do the accounts hold in the end? Which messages moved money, which were refused as new "
            "messages, which were repeats, and which were conflicts?",
            (
                Item("balances", (Key("A", 5), Key("B", 20), Key("C", 125))),
                Item(
                    "messages",
                    (
                        Key("moved", [1, 2, 5, 9, 11, 14], "set"),
                        Key("refused", [4, 15], "set"),
                        Key("repeats", [3, 6, 10, 13], "set"),
                        Key("conflicts", [7, 12], "set"),
                    ),
                ),
                Item(
                    "explanation",
                    guide="4: says why 6 stays a repeat although A could pay by then, why 9 is new although "
                    "8 had its key, and "
                    "why 12 is a conflict although it equals 1. 2: two of them. 0: none or one.",
                ),
            ),
        ),
    ),
)

RELEASE = ReasoningCase(
    "C6 release",
    (
        Question(
            "Build 76 is to be released. It may go out at a moment at which all five gates hold.\n"
            "G1: the upper end of the 95 % interval of the error rate is below 0.5 %.\n"
            "G2: the median of the p99 latencies of the last five nights is at most 250 ms, and none is "
            "above 300 ms.\nG3: the build has no open fault of severity 1 and at most two of severity 2. A "
            "fault of severity 2 does not count while a waiver for it is valid; severity 1 cannot be "
            "waived.\nG4: the build has run for 72 hours without any restart.\n"
            "G5: going back was tried with this build, or with one that has the same version of the database "
            "schema.\n\nKnown on 9 March 2031 at 10:00 UTC:\n"
            "- Error rate 0.26 %, 95 % interval 0.16 % to 0.40 %.\n"
            "- p99 latencies of the last five nights: 238, 251, 247, 262 and 244 ms.\n"
            "- Faults: 101, severity 1, closed. 114, 118 and 120, severity 2, open. For 120 there is a "
            "waiver that is valid until 10 March 2031, 04:00 at UTC+1. 125, severity 1, is mended in build "
            "77 and open in all earlier ones.\n- Build 76 was started on 6 March 2031 at 22:00 at UTC+1. It "
            "was restarted on 7 March 2031 at 04:30 at UTC+1, and has run since.\n"
            "- Going back was tried with build 75. Builds 75 and 76 have schema 12, build 77 has schema "
            "13.\n\nDoes build 76 go out now (go or hold)? Which gates fail now? When will G4 hold, if there "
            "is no restart? Suppose that 125 turns out not to touch build 76, and nothing else changes: "
            "could build 76 go out at the moment at which G4 begins to hold?",
            (
                Item("decision", (Key("decision", "hold", "text"), Key("failing", ["G3", "G4"], "set"))),
                Item(
                    "what comes later",
                    (Key("g4_holds", "2031-03-10T03:30:00Z", "moment"), Key("could_go_then", False, "truth")),
                ),
                Item(
                    "explanation",
                    guide="4: names the waiver of 120, which ends at 03:00 UTC, half an hour before G4 "
                    "holds, and says why "
                    "build 77 is no quick way out (a new soak, and going back untried with schema 13). 2: "
                    "one of the two. 0: neither.",
                ),
            ),
        ),
    ),
)
