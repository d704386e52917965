from dataclasses import dataclass


@dataclass
class Move:
    dx: int
    dy: int = 0


def act(command):
    match command:
        case Move(0, 0):
            return "stay"
        case Move(dx=x, dy=0) if x > 0:
            return f"right {x}"
        case Move(x, y):
            return f"move {x} {y}"
        case ["go", ("north" | "south") as where, *rest]:
            return f"{where} then {len(rest)}"
        case {"say": str(text), **others} if not others:
            return text.upper()
        case None | "":
            return "nothing"
        case bool():
            return "flag"
        case int(n):
            return n + 1
    return "?"


commands = [Move(0), Move(5), Move(5, -1), ["go", "south", 1, 2], ["go", "up"], {"say": "hi"},
            {"say": "hi", "to": "all"}, "", True, 41]
for command in commands:
    print(act(command))
