"""C1 and C2: the path of a packet, and the order of events on clocks that differ."""

from penny_bench.cases.reasoning.model import Item, Key, Question, ReasoningCase

PATH_MTU = ReasoningCase(
    "C1 path MTU",
    (
        Question(
            "Host A sends IPv6 packets to host B over this path, of which every part takes IPv6:\n"
            "1. From A to router R1: Ethernet with an MTU of 9000 bytes.\n"
            "2. From R1 to R2: a GRE tunnel with a key over IPv4. It puts an IPv4 header of 20 bytes and a "
            "GRE header of 8 bytes before each packet. The links below the tunnel have MTUs of 1500 and 1492 "
            "bytes; the outer packets must not be fragmented, and the tunnel's MTU is what these links "
            "leave.\n3. From R2 to R3: a WireGuard tunnel whose interface was set to an MTU of 1400 bytes. "
            "It adds 80 bytes over a link of 1500 bytes.\n"
            "4. From R3 to B: Ethernet with an MTU of 1500 bytes.\n"
            "Each router drops a packet that is too big and sends the ICMPv6 message Packet Too Big with the "
            "MTU of the next part. Messages of R1 reach A. Messages of R2 and R3 are lost in a filter. A "
            "begins with its own MTU, and lowers it only when told. IPv6 and TCP headers have 40 and 20 "
            "bytes; with timestamps, each TCP segment also carries 12 bytes of options.\n\n"
            "Which path MTU does A believe in after its first big packet, and which one does the path really "
            "have? Of which sizes are the IPv6 packets that A then sends and that vanish without a word "
            "(smallest and largest)? To which MSS must R1 set the MSS option of TCP handshakes so that "
            "connections work (the option counts headers without TCP options)? With it and with timestamps, "
            "how many bytes of data does a full segment carry, and how many segments does A need for "
            "1,000,000 bytes?",
            (
                Item(
                    "the two path MTUs and the packets that vanish",
                    (Key("believed", 1464), Key("real", 1400), Key("smallest", 1401), Key("largest", 1464)),
                ),
                Item("MSS and segments", (Key("mss", 1340), Key("data", 1328), Key("segments", 754))),
                Item(
                    "explanation",
                    guide="4: says why A stays at 1464 (the filter eats R2's messages, so large transfers "
                    "hang while "
                    "small ones work) and why setting the MSS helps although the messages stay lost. 2: one "
                    "of the two. 0: neither, or it claims that A learns of 1400.",
                ),
            ),
        ),
    ),
)

EVENT_ORDER = ReasoningCase(
    "C2 event order",
    (
        Question(
            "Three machines wrote down events with their own clocks, in seconds after ten o'clock.\n"
            "P, whose clock is right: p1 at 3.0, p2 at 7.5, p3 at 12.0.\n"
            "Q, whose clock is 2.4 s ahead of the right time: q1 at 6.5, q2 at 11.5.\n"
            "R, whose clock differs from the right time by a constant that nobody knows: r1 at 5.0, r3 at "
            "9.0, r2 at 10.2.\nA message that P sent at the event p1 arrived at R at the event r1. A message "
            "that R sent at the event r2 arrived at Q at the event q2. Every message takes at least 0.2 s. "
            "Nothing else is known.\n\nBy how many seconds is R's clock ahead of the right time, at least "
            "and at most? In which order did the eight events happen? Give the order as a list of groups, "
            "from the earliest on: two events share a group only if their order cannot be known.",
            (
                Item(
                    "bounds of the clock",
                    (Key("least", 1.3, tolerance=0.001), Key("most", 1.8, tolerance=0.001)),
                ),
                Item(
                    "order",
                    (
                        Key(
                            "order",
                            [["p1"], ["r1"], ["q1"], ["p2", "r3"], ["r2"], ["q2"], ["p3"]],
                            "groups",
                        ),
                    ),
                ),
                Item(
                    "explanation",
                    guide="4: derives one bound from each message, and names the span of r3 (7.2 to 7.7 s) "
                    "around p2 (7.5 s) "
                    "as the reason why these two cannot be ordered. 2: bounds derived, but the open pair "
                    "only stated. 0: neither.",
                ),
            ),
        ),
    ),
)
