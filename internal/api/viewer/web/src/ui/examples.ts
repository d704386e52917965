// Small programs with a bug each, to try the page with.

/** A program to start from. */
export interface Example {
  title: string;
  code: string;
  stdin: string;
}

export const EXAMPLES: Example[] = [
  {
    title: "A missing key",
    stdin: "",
    code: `DISCOUNTS = {"tea": 1, "bread": 0}


def discount_for(item):
    return DISCOUNTS[item]


def with_discount(item, price):
    return price - discount_for(item)


basket = {"tea": 4, "bread": 3, "jam": 5}
total = 0
for item, price in basket.items():
    total += with_discount(item, price)
print("to pay:", total)
`,
  },
  {
    title: "A shared list",
    stdin: "",
    code: `def collect(value, into=[]):
    into.append(value)
    return into


first = collect("red")
second = collect("blue")
print(first, second)
`,
  },
  {
    title: "A loop that never ends",
    stdin: "7\n",
    code: `left = int(input("start: "))
while left != 0:
    left = left - 2
print("done")
`,
  },
];
