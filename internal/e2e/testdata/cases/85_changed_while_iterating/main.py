prices = {"tea": 3, "milk": 1, "salt": 2}
seen = []
numbers = [1, 2, 2, 3]
for n in numbers:
    if n == 2:
        numbers.remove(n)
print(numbers)
for name in prices:
    seen.append(name)
    if prices[name] < 3:
        del prices[name]
