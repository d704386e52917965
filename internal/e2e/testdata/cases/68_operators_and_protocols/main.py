from functools import total_ordering


@total_ordering
class Money:
    def __init__(self, cents):
        self.cents = cents

    def __add__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return Money(self.cents + other.cents)

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __eq__(self, other):
        return self.cents == other.cents

    def __lt__(self, other):
        return self.cents < other.cents

    def __hash__(self):
        return hash(self.cents)

    def __format__(self, spec):
        return f"{self.cents / 100:{spec or '.2f'}}"


class Purse:
    def __init__(self, *coins):
        self.coins = coins

    def __iter__(self):
        yield from self.coins

    def __len__(self):
        return len(self.coins)

    def __getitem__(self, place):
        return self.coins[place]

    def __contains__(self, coin):
        return any(coin == own for own in self)

    def __call__(self, factor):
        return Purse(*(Money(coin.cents * factor) for coin in self))


purse = Purse(Money(100), Money(50), Money(50))
print(f"{sum(purse)} {max(purse):.1f} {len(purse)} {len(set(purse))}")
print(Money(50) in purse, Money(1) in purse, f"{purse(3)[-1]}", bool(Purse()))
print(Money(1) >= Money(1))
purse[0] + 1
