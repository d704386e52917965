def find(rows, wanted):
    for number, row in enumerate(rows):
        for cell in row:
            if cell is None:
                continue
            if cell == wanted:
                break
        else:
            continue
        return number
    else:
        return -1


rows = [[1, None, 2], [3], [], [4, 5, 6]]
print(find(rows, 5), find(rows, 9))
n = 27
steps = 0
while n != 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps += 1
    if steps > 1000:
        break
else:
    print("reached 1 after", steps)
while False:
    print("never")
for _ in ():
    print("never")
for step in range(3): print(step, end=" ")
print()
