def work(items):
    total = 0
    for item in items:
        total += item
    items.append(total)
    alias = items
    alias[0] = "first"
    del alias
    one = 1
    one = True
    one = 1.0
    return total


class Account:
    rate = 2

    def __init__(self, owner):
        self.owner = owner
        self.balance = 0

    def add(self, amount):
        self.balance += amount * self.rate
        return self


values = [1, 2]
work(values)
account = Account("ann")
account.add(5).add(1)
Account.rate = 3
account.add(1)
