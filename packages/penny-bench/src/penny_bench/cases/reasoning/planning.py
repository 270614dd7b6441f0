"""C3 and C4: a small integer programme, and a schedule of one oven. Their optima are unique."""

from penny_bench.cases.reasoning.model import Item, Key, Question, ReasoningCase

PRODUCTION = ReasoningCase(
    "C3 production",
    (
        Question(
            "A joinery makes stools, benches and shelves, whole pieces only, and sells all that it makes.\n\n"
            "| | stool | bench | shelf | at hand |\n|---|---|---|---|---|\n"
            "| profit, euros a piece | 59 | 77 | 78 | |\n"
            "| saw, minutes a piece | 2 | 9 | 3 | 105 |\n"
            "| glue, grams a piece | 4 | 3 | 7 | 116 |\n"
            "| paint, grams a piece | 6 | 6 | 3 | 106 |\n\n"
            "If it makes any shelves, it must make at least 4, and the jig for them costs 60 euros once. How "
            "many pieces of each make the largest profit after the jig, and how large is it? By how many "
            "euros does the best plan beat the second best, and how many grams of paint does the best plan "
            "leave?",
            (
                Item("plan", (Key("stools", 4), Key("benches", 7), Key("shelves", 11))),
                Item("numbers", (Key("profit", 1573), Key("lead", 18), Key("paint_left", 7))),
                Item(
                    "explanation",
                    guide="4: shows that the plan keeps every limit, and gives a reason why no other plan is "
                    "better (a bound "
                    "or a complete search). 2: shows the limits, but only says that it is the best. 0: "
                    "neither.",
                ),
            ),
        ),
    ),
)

SCHEDULE = ReasoningCase(
    "C4 schedule",
    (
        Question(
            "One oven bakes six orders, one at a time and without a break in an order; it may stand idle. "
            "Times are in hours from 0. An order cannot begin before it is ready. One that ends after it is "
            "due costs its weight for each hour that it is late.\n\n"
            "| order | ready | bakes for | due | weight |\n|---|---|---|---|---|\n"
            "| A | 8 | 4 | 17 | 1 |\n| B | 2 | 2 | 8 | 2 |\n| C | 1 | 6 | 9 | 5 |\n"
            "| D | 1 | 3 | 16 | 3 |\n| E | 1 | 7 | 9 | 5 |\n| F | 0 | 4 | 14 | 6 |\n\n"
            "Which sequence costs least, what does it cost, when does the last order end, and which orders "
            "are late? What would it cost to bake in the order of the due times, where of two with the same "
            "the earlier letter goes first?",
            (
                Item("sequence", (Key("sequence", ["C", "B", "F", "D", "E", "A"], "list"), Key("cost", 82))),
                Item(
                    "numbers",
                    (
                        Key("end", 27),
                        Key("late", ["B", "E", "A"], "set"),
                        Key("cost_by_due_time", 122),
                    ),
                ),
                Item(
                    "explanation",
                    guide="4: says what each late order costs, that the oven stands idle until 1 although F "
                    "is ready at 0, and "
                    "why that pays. 2: costs right, the idle hour not explained. 0: neither.",
                ),
            ),
        ),
    ),
)
